#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/gradient_moments.h"
#include "triaccel/kernels/update/quantized_update.h"
#include "triaccel/kernels/update/sgd.h"
#include "triaccel/kernels/update/step_control.h"
#include "triaccel/kernels/update/weight_average.h"
#include "triaccel/ops/tensors/tensor_bundle.h"
#include "triaccel/ops/update/update_inputs.h"

namespace triaccel {

// Each function checks its tensors, looks at the device once and enqueues on the current stream.
// `step_control`, `moments` and `layer_scales` are as ops/update_inputs.h says, all on the device
// of the bundle.

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
/// The states of the bundle are coded ones; `seed` names the noise of their rounding.
void quantized_sgd_update(const TensorBundle& bundle, const UpdateInputs& inputs,
                          const kernels::SgdStep& step, std::uint64_t seed);
void quantized_adamw_update(const TensorBundle& bundle, const UpdateInputs& inputs,
                            const kernels::AdamWStep& step, std::uint64_t seed);
void average_weights(const TensorBundle& bundle, const at::Tensor& step_control,
                     const kernels::WeightAverageStep& step);
void swap_weights(const TensorBundle& bundle);

}  // namespace triaccel
