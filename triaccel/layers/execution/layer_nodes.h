#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/layers/execution/branches.h"
#include "triaccel/layers/execution/layer_table.h"
#include "triaccel/layers/scope/operator_scope.h"

namespace torch::autograd {
struct Node;
}

namespace triaccel {

/// The weight that a node of the layers below multiplies with, which autograd does not see;
/// undefined for any other node.
at::Tensor weight_of(const torch::autograd::Node& node);

/// A convolution by the layer's weight, computed and differentiated as the layer says. The
/// gradients of the input and of the bias go on through autograd. With `branch` it runs there; its
/// input is then of the carrier's type.
at::Tensor convolution_layer(const ConvolutionCall& call, const Layer& layer,
                             Branch* branch = nullptr);

/// The same for a product with a matrix of weights.
at::Tensor linear_layer(const LinearCall& call, const Layer& layer);

}  // namespace triaccel
