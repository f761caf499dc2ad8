#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/update/update_gate.h"

namespace triaccel {

using kernels::UpdateGate;

/// What an update reads beside parameters and gradients, all on their device.
/// GradientControl::update_inputs() fills it in.
struct UpdateInputs {
  at::Tensor learning_rates;  // F32 [layers]
  at::Tensor step_control;    // U8 [sizeof(kernels::StepControl)]
  at::Tensor layer_scales;    // as in ops/layer_scales.h; undefined: all 1
  at::Tensor moments;         // U8 [layers * sizeof(kernels::LayerMoments)]; for UpdateGate::Layer
  UpdateGate gate = UpdateGate::Step;
};

}  // namespace triaccel
