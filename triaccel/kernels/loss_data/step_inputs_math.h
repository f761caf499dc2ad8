#pragma once

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/loss_data/step_inputs.h"

namespace triaccel::kernels {

/// The i-th number and the i-th rate, where there are so many.
TRIACCEL_HOST_DEVICE inline void place_one(const StepInputs& inputs, const StepPlaces& places,
                                           std::int64_t i) {
  if (i < places.samples) places.ids[i] = inputs.ids[i];
  if (i >= places.layers) return;
  float rate = inputs.learning_rate * places.scales[i];
  if (places.zeroth_order_scales != nullptr)
    rate += inputs.zeroth_order_rate * places.zeroth_order_scales[i];
  places.learning_rates[i] = rate;
}

}  // namespace triaccel::kernels
