#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/layers/execution/branches.h"
#include "triaccel/layers/execution/layer_execution.h"

namespace torch::autograd {
struct Node;
}

namespace triaccel {

/// The weight that a node of the layers below multiplies with, which autograd does not see;
/// undefined for any other node.
at::Tensor weight_of(const torch::autograd::Node& node);

/// A weight gradient in FP32, whatever type it is stored in; an FP16 one is divided by its layer's
/// scale.
at::Tensor wide_gradient(const at::Tensor& gradient, const at::Tensor& scales, std::int64_t layer);

/// Adds a weight gradient to what is there. A 16-bit one stays as it is unless it is a sum: over
/// passes, or over several uses of the weight.
void give_gradient(const at::Tensor& weight, at::Tensor gradient, const LayerArithmetic& how);

/// A convolution of the FP32 master `weight`, computed and differentiated as `how` says. The
/// input's and the bias's gradients go on through autograd; the weight's is put into weight.grad()
/// directly, since autograd would widen it. With `branch` it runs there; its input is then of the
/// carrier's type.
at::Tensor convolution_layer(const ConvolutionCall& call, const at::Tensor& weight,
                             const LayerArithmetic& how, Branch* branch = nullptr);

/// The same for a product with a matrix of weights.
at::Tensor linear_layer(const LinearCall& call, const at::Tensor& weight,
                        const LayerArithmetic& how);

}  // namespace triaccel
