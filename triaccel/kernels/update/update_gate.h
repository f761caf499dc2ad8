#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/precision/layer_scale.h"
#include "triaccel/kernels/update/gradient_moments.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel::kernels {

/// What decides whether a tensor is updated.
enum class UpdateGate : std::uint8_t {
  Step,   // the whole step, once all gradients were measured: control->skip
  Layer,  // the tensor's own layer, while other gradients are still to come
};

/// What an update reads in device memory, so that a captured graph follows it. Under
/// UpdateGate::Layer `control` is still that of the step before: gradients are divided by its loss
/// scale, not clipped, and the step counts as the next one; a layer whose moments so far show a
/// non-finite element is skipped.
struct UpdateInputs {
  const float* learning_rates = nullptr;  // [layers]
  const StepControl* control = nullptr;
  const LayerScale* scales = nullptr;     // [layers]; null: all 1
  const LayerMoments* moments = nullptr;  // [layers]; for UpdateGate::Layer
  UpdateGate gate = UpdateGate::Step;
  std::int64_t begun_after = 0;  // applied steps of the run before the optimizer's state began
};

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

/// Applied steps since the optimizer's state began, this one included.
TRIACCEL_HOST_DEVICE inline std::int64_t step_number(const UpdateInputs& inputs) {
  return inputs.control->applied_steps - inputs.begun_after +
         (inputs.gate == UpdateGate::Step ? 0 : 1);
}

}  // namespace triaccel::kernels
