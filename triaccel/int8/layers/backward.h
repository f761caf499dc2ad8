#pragma once

#include <cstdint>

#include "triaccel/int8/arena.h"
#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/network.h"
#include "triaccel/int8/threads.h"
#include "triaccel/int8/training/state.h"
#include "triaccel/int8/training/weight_update.h"

namespace triaccel::int8 {

/// Integer backpropagation and update of the layers from `boundary` on: each layer's error is
/// propagated through its old weights, then the weights are updated with the gradient scaled to
/// `gradient_bits`.
struct Backward {
  Kept kept = {};
  std::int32_t boundary = 0;
  std::int32_t samples = 0;
  std::int32_t gradient_bits = 3;
  UpdateRounding rounding = UpdateRounding::Stochastic;
  Exponents exponents = Exponents::PerSample;
  std::uint64_t rounding_key = 0;
  Threads threads = {};
};

void run_backward(State& state, const Backward& job, Arena& arena);

/// Maximum batch size for which gradients of the layers from `boundary` on fit int32.
std::int32_t most_backward_samples(const Network& network, std::int32_t boundary);

/// Elements of run_backward's buffers.
struct BackwardMemory {
  std::int64_t errors[2] = {0, 0};  // int8, one for the layer's output, one for its input
  std::int64_t exponents = 0;       // int32, twice
  std::int64_t input_sums = 0;      // int32 per worker
  std::int64_t largest = 0;         // uint32, per tensor only
  std::int64_t gradient = 0;        // int32
  std::int64_t row_largest = 0;     // uint32, one per row
  std::int32_t workers = 1;

  std::int64_t peak_bytes() const;
};

BackwardMemory backward_memory(const Network& network, const Backward& job);

/// One sample of a layer in the backward pass.
struct SampleError {
  const std::int8_t* error = nullptr;     // Layer::outputs()
  const std::int8_t* input = nullptr;     // Layer::inputs(); null if only errors are needed
  const std::uint8_t* choices = nullptr;  // where each pooled output came from, or null
};

/// sums[Layer::inputs()] = Wᵀ · error. Only pooled positions have errors, so the cost is that of
/// the pooled outputs.
void input_error_sums(const Layer& layer, const std::int8_t* weights, const SampleError& sample,
                      std::int32_t* sums);

/// row[Layer::depth()] += the gradient of one output channel's weights from one sample.
void add_gradient_row(const Layer& layer, std::int32_t channel, const SampleError& sample,
                      std::int32_t* row);

}  // namespace triaccel::int8
