#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/core/precision.h"
#include "triaccel/layers/convolution/convolution.h"

namespace triaccel {

/// input [..., in] times weight [out, in] transposed, plus `bias` [out] or undefined. `input` may
/// be of any floating type, it and the weight are rounded to `precision`, the product to `output`,
/// and so is its sum with the bias. No autograd.
at::Tensor linear_forward(const at::Tensor& input, const LayerWeight& weight,
                          const at::Tensor& bias, Precision precision, Arithmetic arithmetic,
                          at::ScalarType output);

/// The gradients of linear_forward but the bias's, each rounded to the type asked for;
/// `output_gradient` is rounded to `precision` first.
LayerGradients linear_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                               const LayerWeight& weight, Precision precision,
                               Arithmetic arithmetic, const GradientTypes& types);

}  // namespace triaccel
