#pragma once

#include <cstdint>

#include "triaccel/int8/arena.h"
#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/threads.h"
#include "triaccel/int8/training/state.h"
#include "triaccel/int8/training/weight_update.h"

namespace triaccel::int8 {

/// Integer backpropagation of the layers from `boundary` on, with their update: each layer's error
/// goes on through its old weights, then the layer moves by its gradient, scaled to
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

/// The most samples whose gradients of the layers from `boundary` on fit int32.
std::int32_t most_backward_samples(const Network& network, std::int32_t boundary);

/// Elements of run_backward's buffers.
struct BackwardMemory {
  std::int64_t errors[2] = {0, 0};  // int8, one for the layer's output, one for its input
  std::int64_t exponents = 0;       // int32, twice
  std::int64_t input_sums = 0;      // int32 a worker
  std::int64_t largest = 0;         // uint32, per tensor only
  std::int64_t gradient = 0;        // int32
  std::int64_t row_largest = 0;     // uint32, one a row
  std::int32_t workers = 1;

  std::int64_t peak_bytes() const;
};

BackwardMemory backward_memory(const Network& network, const Backward& job);

}  // namespace triaccel::int8
