#pragma once

#include "triaccel/int8/cuda/step_arguments.h"

typedef struct CUstream_st* cudaStream_t;  // keeps cuda_runtime.h out of C++ callers

namespace triaccel::int8::cuda {

// The kernels of a step, in order. Each only enqueues work on the stream.

/// Builds the perturbed panels of all layers and clears the accumulators. Reads the weights, writes
/// up to three times as many bytes.
void launch_prepare(const StepArguments& step, cudaStream_t stream);

/// One point layer for all samples and streams, in tiles of points: its input is requantized from
/// the sums of the previous layer, read once per tile, and its sums are written once.
void launch_point_layer(const StepArguments& step, std::int32_t layer, cudaStream_t stream);

/// Shared memory per block, and a call that reserves the maximum.
std::int32_t point_layer_bytes(const DeviceLayer& layer);
void reserve_point_memory(std::int32_t bytes);

/// Shared memory of one sample.
struct SampleLayout {
  std::int32_t placed_stride = 0;  // stride between inputs of streams
  std::int32_t sums = 0;           // int32 [stream][output]
  std::int32_t patches = 0;
  std::int32_t offsets = 0;  // uint16 [padded depth]
  std::int32_t errors = 0;   // of a layer's output and of its input
  std::int32_t error_stride = 0;
  std::int32_t streams_together = 1;  // whose patches fit together
  std::int32_t bytes = 0;
};

/// The layout within `limit` bytes; throws UsageError if the network is too large.
SampleLayout sample_layout(const DeviceNetwork& network, std::int64_t limit);

/// Reserves the shared memory of launch_sample_pass.
void reserve_sample_memory(const SampleLayout& layout);

/// One block per sample: forward through convolutions and linear layers to the losses, and backward
/// with the errors. Reads the panels once per sample.
void launch_sample_pass(const StepArguments& step, const SampleLayout& layout, cudaStream_t stream);

/// Gradients of the backpropagated layers over the batch.
void launch_gradients(const StepArguments& step, cudaStream_t stream);

/// Updates all weights and the step count.
void launch_update(const StepArguments& step, cudaStream_t stream);

}  // namespace triaccel::int8::cuda
