#include "triaccel/layers/left_gradient.h"

#include <torch/csrc/autograd/variable.h>

namespace triaccel {

std::shared_ptr<TakesGradient> TakesGradient::behind(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.grad_fn() || tensor.retains_grad() ||
      !torch::autograd::impl::hooks(tensor).empty())
    return nullptr;
  return std::dynamic_pointer_cast<TakesGradient>(tensor.grad_fn());
}

}  // namespace triaccel
