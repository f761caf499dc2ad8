#pragma once

#include <cstdint>

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
};

}  // namespace triaccel::kernels
