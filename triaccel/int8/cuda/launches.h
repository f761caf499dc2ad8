#pragma once

#include "triaccel/int8/cuda/step_arguments.h"

typedef struct CUstream_st* cudaStream_t;  // keeps cuda_runtime.h out of C++ callers

namespace triaccel::int8::cuda {

// The kernels of a step, in order. Each only enqueues on the stream.

/// Builds the perturbed panels of all layers and clears what the step sums into. Reads the weights,
/// writes up to three times as many bytes.
void launch_prepare(const StepArguments& step, cudaStream_t stream);

/// One point layer for all samples and streams, in tiles of points: its input is requantised from
/// the sums of the layer before, which are read once a tile, and its sums are written once.
void launch_point_layer(const StepArguments& step, std::int32_t layer, cudaStream_t stream);

/// Shared memory of a block of it, and what tells the runtime of the most that will be wanted.
std::int32_t point_layer_bytes(const DeviceLayer& layer);
void reserve_point_memory(std::int32_t bytes);

/// Shared memory of one sample.
struct SampleLayout {
  std::int32_t placed_stride = 0;  // from one stream's input to the next
  std::int32_t sums = 0;           // int32 [stream][output]
  std::int32_t patches = 0;
  std::int32_t offsets = 0;  // uint16 [padded depth]
  std::int32_t errors = 0;   // of a layer's output and of its input
  std::int32_t error_stride = 0;
  std::int32_t streams_together = 1;  // whose patches fit at once
  std::int32_t bytes = 0;
};

/// The layout within `limit` bytes; throws UsageError if the network is too large.
SampleLayout sample_layout(const DeviceNetwork& network, std::int64_t limit);

/// Tells the runtime how much shared memory launch_sample_pass will want.
void reserve_sample_memory(const SampleLayout& layout);

/// A block a sample: through convolutions and linear layers to its losses, and back with its
/// errors. Reads the panels once a sample.
void launch_sample_pass(const StepArguments& step, const SampleLayout& layout, cudaStream_t stream);

/// Gradients of the backpropagated layers over the batch.
void launch_gradients(const StepArguments& step, cudaStream_t stream);

/// Moves all weights by what the step found, and counts the step.
void launch_update(const StepArguments& step, cudaStream_t stream);

}  // namespace triaccel::int8::cuda
