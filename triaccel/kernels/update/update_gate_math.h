#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/precision/layer_scale_math.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels {

TRIACCEL_HOST_DEVICE inline bool is_skipped(const UpdateInputs& inputs, std::int32_t layer) {
  return inputs.gate == UpdateGate::Step ? inputs.control->skip != 0
                                         : inputs.moments[layer].nonfinite > 0;
}

/// What a gradient of `layer`, stored as `type`, is multiplied with.
TRIACCEL_HOST_DEVICE inline float gradient_multiplier(const UpdateInputs& inputs,
                                                      std::int32_t layer, FloatType type) {
  const float of_step = inputs.gate == UpdateGate::Step ? inputs.control->gradient_multiplier
                                                        : 1.0f / inputs.control->loss_scale;
  return of_step / carried_scale(inputs.scales, layer, type);
}

/// Applied steps in the run, this one included.
TRIACCEL_HOST_DEVICE inline std::int64_t step_number(const UpdateInputs& inputs) {
  return inputs.control->applied_steps + (inputs.gate == UpdateGate::Step ? 0 : 1);
}

}  // namespace triaccel::kernels
