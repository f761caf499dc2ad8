#pragma once

#include <cstdint>

#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/layers/forward_memory.h"

namespace triaccel::int8 {

/// One micro-batch on its way through the network.
struct MicroBatch {
  std::int32_t first = 0;  // sample of the batch
  std::int32_t count = 0;
  std::int8_t* rows = nullptr;        // [stream][count][padded inputs of the linear layer]
  std::int32_t* exponents = nullptr;  // [stream][count], of `rows`
};

/// Shift of a stream whose largest |sum| is given; a minus stream takes its plus stream's where
/// they share, so that no shift flips between the two passes.
std::int32_t stream_shift(const Forward& job, std::int32_t stream, std::uint32_t largest,
                          std::int32_t plus_shift);

/// Whether the input of `layer` is kept for backpropagation.
bool keeps(const Forward& job, std::int32_t layer);

/// Brings the batch's samples through the convolutions or point layers into micro.rows.
void run_features(const Forward& job, const ForwardMemory& memory, const MicroBatch& micro,
                  Arena& arena);

/// From micro.rows through the linear layers to losses, which are added to `result`.
void run_linear_layers(const Forward& job, const ForwardMemory& memory, const MicroBatch& micro,
                       Arena& arena, ForwardResult& result);

}  // namespace triaccel::int8
