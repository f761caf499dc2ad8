#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/gradient_moments.h"
#include "triaccel/kernels/update/quantized_update.h"
#include "triaccel/kernels/update/sgd.h"
#include "triaccel/kernels/update/step_control.h"
#include "triaccel/kernels/update/update_gate.h"
#include "triaccel/kernels/update/weight_average.h"
#include "triaccel/ops/tensors/tensor_bundle.h"

namespace triaccel {

using kernels::UpdateGate;

/// What an update reads in addition to parameters and gradients, all on their device.
/// GradientControl::update_inputs() fills it in.
struct UpdateInputs {
  at::Tensor learning_rates;  // F32 [layers]
  at::Tensor step_control;    // U8 [sizeof(kernels::StepControl)]
  at::Tensor layer_scales;    // as in layer_scales.h; undefined: all 1
  at::Tensor moments;         // U8 [layers * sizeof(kernels::LayerMoments)]; for UpdateGate::Layer
  UpdateGate gate = UpdateGate::Step;
};

/// A step control tensor, U8 [sizeof(kernels::StepControl)], as kernels take it; UsageError unless
/// it is one and lies on `device`.
kernels::StepControl* step_control_of(std::string_view who, const at::Tensor& step_control,
                                      const at::Device& device);

// Each function checks its tensors and enqueues on the current stream.
// `step_control`, `moments` and `layer_scales` are as in UpdateInputs, all on the bundle's device.

/// The scratch add_gradient_moments needs: U8, on the device of the bundle.
at::Tensor moments_scratch(const TensorBundle& bundle);

void clear_moments(const at::Tensor& step_control, const at::Tensor& layer_scales,
                   const at::Tensor& moments);
void add_gradient_moments(const TensorBundle& bundle, const at::Tensor& step_control,
                          const at::Tensor& layer_scales, const at::Tensor& scratch,
                          const at::Tensor& moments);
void decide_step(const at::Tensor& step_control, const at::Tensor& moments,
                 const kernels::StepControlOptions& options);
void update_layer_scales(const at::Tensor& layer_scales, const at::Tensor& moments);
void sgd_update(const TensorBundle& bundle, const UpdateInputs& inputs,
                const kernels::SgdStep& step);
void adamw_update(const TensorBundle& bundle, const UpdateInputs& inputs,
                  const kernels::AdamWStep& step);
/// The states of the bundle are 8-bit ones; `seed` determines the noise of their rounding.
void quantized_sgd_update(const TensorBundle& bundle, const UpdateInputs& inputs,
                          const kernels::SgdStep& step, std::uint64_t seed);
void quantized_adamw_update(const TensorBundle& bundle, const UpdateInputs& inputs,
                            const kernels::AdamWStep& step, std::uint64_t seed);
void average_weights(const TensorBundle& bundle, const at::Tensor& step_control,
                     const kernels::WeightAverageStep& step);
void swap_weights(const TensorBundle& bundle);

}  // namespace triaccel
