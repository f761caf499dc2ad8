#include "triaccel/layers/listened_to.h"

#include <torch/csrc/autograd/variable.h>

namespace triaccel {

bool is_listened_to(const at::Tensor& tensor) {
  return tensor.requires_grad() &&
         (tensor.retains_grad() || !torch::autograd::impl::hooks(tensor).empty());
}

}  // namespace triaccel
