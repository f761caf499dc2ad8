#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::kernels {

/// What the host sets for each step, small enough to be the arguments of a kernel.
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

/// The i-th number and the i-th learning rate, where there are so many.
TRIACCEL_HOST_DEVICE inline void place_one(const StepInputs& inputs, const StepPlaces& places,
                                           std::int64_t i) {
  if (i < places.samples) places.ids[i] = inputs.ids[i];
  if (i >= places.layers) return;
  float learning_rate = inputs.learning_rate * places.scales[i];
  if (places.zeroth_order_scales != nullptr)
    learning_rate += inputs.zeroth_order_rate * places.zeroth_order_scales[i];
  places.learning_rates[i] = learning_rate;
}

/// ids[i] <- inputs.ids[i];
/// learning_rates[i] <- learning_rate * scales[i] + zeroth_order_rate * zeroth_order_scales[i].
namespace cpu {
inline void place_step_inputs(const StepInputs& inputs, const StepPlaces& places) {
  const std::int64_t most = std::max(places.samples, places.layers);
  for (std::int64_t i = 0; i < most; ++i) place_one(inputs, places, i);
}
}  // namespace cpu
namespace cuda {
void place_step_inputs(const StepInputs& inputs, const StepPlaces& places, cudaStream_t stream);

/// The kernel of it, whose arguments are a StepInputs and a StepPlaces: to give new ones to one
/// that was captured.
const void* step_inputs_kernel();
}  // namespace cuda

}  // namespace triaccel::kernels
