#include "triaccel/layers/listened_to.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace triaccel {

bool is_listened_to(const at::Tensor& tensor) {
  return tensor.requires_grad() &&
         (tensor.retains_grad() || !torch::autograd::impl::hooks(tensor).empty());
}

bool is_listened_to(torch::autograd::Node& node) {
  return !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         node.tensor_post_acc_grad_hooks() != nullptr;
}

}  // namespace triaccel
