#pragma once

#include <cstdint>

#include "triaccel/int8/layers/forward.h"

namespace triaccel::int8 {

/// Rows of a linear layer's weights packed and multiplied at a time.
inline constexpr std::int32_t kPanelRows = 16;

/// Elements of each buffer of a forward pass, for one micro-batch.
struct ForwardMemory {
  std::int64_t rows = 0;       // int8: inputs of the linear layers, all streams
  std::int64_t exponents = 0;  // int32: one per stream and sample

  // Features: alive until the first linear layer.
  std::int64_t panels = 0;           // int8: perturbed weights, all feature layers
  std::int64_t input = 0;            // int8 per worker
  std::int64_t activations = 0;      // int8 per worker (per tensor: total)
  std::int64_t patches = 0;          // int8 per worker
  std::int64_t part_sums = 0;        // int32 per worker
  std::int64_t feature_sums = 0;     // int32 per worker (per tensor: total)
  std::int64_t feature_largest = 0;  // uint32, per tensor only

  // Linear layers.
  std::int64_t sums = 0;          // int32
  std::int64_t block_panels = 0;  // int8 per worker
  std::int64_t shifts = 0;        // int32, per tensor only: one per stream

  std::int32_t workers = 1;
  Exponents convention = Exponents::PerSample;

  /// Peak live bytes.
  std::int64_t peak_bytes() const;
};

/// Samples processed together.
std::int32_t micro_batch_of(const Forward& job);

ForwardMemory forward_memory(const Network& network, const Forward& job);

/// Panels of a feature layer: one per stream if perturbed, otherwise one.
std::int32_t panel_count(const Forward& job, std::int32_t layer);

/// State of one micro-batch in the forward pass.
struct MicroBatch {
  std::int32_t first = 0;  // sample of the batch
  std::int32_t count = 0;
  std::int8_t* rows = nullptr;        // [stream][count][padded inputs of the linear layer]
  std::int32_t* exponents = nullptr;  // [stream][count], of `rows`
};

/// Shift of a stream from its largest |sum|; a minus stream may share that of its plus stream, so
/// that shifts do not differ between the two passes.
std::int32_t stream_shift(const Forward& job, std::int32_t stream, std::uint32_t largest,
                          std::int32_t plus_shift);

/// Whether the input of `layer` is saved for backpropagation.
bool keeps(const Forward& job, std::int32_t layer);

/// Runs convolutions or point layers and writes the result to micro.rows.
void run_features(const Forward& job, const ForwardMemory& memory, const MicroBatch& micro,
                  Arena& arena);

/// Runs the linear layers on micro.rows and adds the losses to `result`.
void run_linear_layers(const Forward& job, const ForwardMemory& memory, const MicroBatch& micro,
                       Arena& arena, ForwardResult& result);

}  // namespace triaccel::int8
