#include "triaccel/layers/scope/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace triaccel {

bool has_gradient_hooks(const at::Tensor& tensor) {
  return tensor.requires_grad() &&
         (tensor.retains_grad() || !torch::autograd::impl::hooks(tensor).empty());
}

bool has_gradient_hooks(torch::autograd::Node& node) {
  return !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         node.tensor_post_acc_grad_hooks() != nullptr;
}

}  // namespace triaccel
