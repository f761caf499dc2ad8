#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/adamw.h"
#include "triaccel/kernels/gradient_moments.h"
#include "triaccel/kernels/sgd.h"
#include "triaccel/kernels/step_control.h"
#include "triaccel/kernels/weight_average.h"
#include "triaccel/ops/tensor_bundle.h"

namespace triaccel {

// Each function checks its tensors, looks at the device once and enqueues on the current stream.
// `learning_rates` is F32 [layers]; `step_control` U8 [sizeof(kernels::StepControl)];
// `moments` U8 [layers * sizeof(kernels::LayerMoments)]; `layer_scales` as in ops/layer_scales.h,
// undefined: all 1; all on the device of the bundle.

/// The scratch gradient_moments needs: U8, on the device of the bundle.
at::Tensor moments_scratch(const TensorBundle& bundle);

void gradient_moments(const TensorBundle& bundle, const at::Tensor& step_control,
                      const at::Tensor& layer_scales, const at::Tensor& scratch,
                      const at::Tensor& moments);
void decide_step(const at::Tensor& step_control, const at::Tensor& moments,
                 const kernels::StepControlOptions& options);
void update_layer_scales(const at::Tensor& layer_scales, const at::Tensor& moments);
void sgd_update(const TensorBundle& bundle, const at::Tensor& learning_rates,
                const at::Tensor& step_control, const at::Tensor& layer_scales,
                const kernels::SgdStep& step);
void adamw_update(const TensorBundle& bundle, const at::Tensor& learning_rates,
                  const at::Tensor& step_control, const at::Tensor& layer_scales,
                  const kernels::AdamWStep& step);
void average_weights(const TensorBundle& bundle, const at::Tensor& step_control,
                     const kernels::WeightAverageStep& step);
void swap_weights(const TensorBundle& bundle);

}  // namespace triaccel
