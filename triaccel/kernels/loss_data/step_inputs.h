#pragma once

#include <cstdint>

#include "triaccel/kernels/common/cuda_stream.h"

namespace triaccel::kernels {

/// What the host says anew for each step, small enough to be the arguments of a kernel.
struct StepInputs {
  const std::int64_t* ids = nullptr;  // the samples' numbers, in device memory
  float learning_rate = 0;
  float zeroth_order_rate = 0;
};

/// Where the step reads it.
struct StepPlaces {
  std::int64_t* ids = nullptr;
  std::int64_t samples = 0;
  float* learning_rates = nullptr;             // of the layers
  const float* scales = nullptr;               // likewise: the plan's
  const float* zeroth_order_scales = nullptr;  // likewise; null: all 0
  std::int64_t layers = 0;
};

/// ids[i] <- inputs.ids[i];
/// learning_rates[i] <- learning_rate * scales[i] + zeroth_order_rate * zeroth_order_scales[i].
namespace cpu {
void place_step_inputs(const StepInputs& inputs, const StepPlaces& places);
}
namespace cuda {
void place_step_inputs(const StepInputs& inputs, const StepPlaces& places, cudaStream_t stream);

/// The kernel of it, whose arguments are a StepInputs and a StepPlaces: to give new ones to one
/// that was captured.
const void* step_inputs_kernel();
}  // namespace cuda

}  // namespace triaccel::kernels
