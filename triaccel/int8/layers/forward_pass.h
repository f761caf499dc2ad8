#pragma once

#include <cstdint>

#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/layers/forward_memory.h"

namespace triaccel::int8 {

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
