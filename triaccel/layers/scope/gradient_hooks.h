#pragma once

#include <ATen/core/Tensor.h>

namespace torch::autograd {
struct Node;
}

namespace triaccel {

/// Somebody wants to see the gradient of this very tensor: by a hook, or by retain_grad.
bool has_gradient_hooks(const at::Tensor& tensor);

/// The same of a tensor that is a node's output, or that a node gives its gradient to.
bool has_gradient_hooks(torch::autograd::Node& node);

}  // namespace triaccel
