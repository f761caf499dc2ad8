#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/core/precision.h"
#include "triaccel/layers/convolution.h"

namespace triaccel {

/// input [..., in] times weight [out, in] transposed, without bias. `input` may be of any floating
/// type, it and the weight are rounded to `precision`, the result to `output`. No autograd.
at::Tensor linear_forward(const at::Tensor& input, const LayerWeight& weight, Precision precision,
                          Arithmetic arithmetic, at::ScalarType output);

struct LinearGradients {
  at::Tensor input = {};   // undefined when not asked for
  at::Tensor weight = {};  // likewise
};

/// The gradients of linear_forward, each rounded to the type asked for; `output_gradient` is
/// rounded to `precision` first.
LinearGradients linear_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                const LayerWeight& weight, Precision precision,
                                Arithmetic arithmetic, const GradientTypes& types);

}  // namespace triaccel
