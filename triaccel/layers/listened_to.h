#pragma once

#include <ATen/core/Tensor.h>

namespace triaccel {

/// Somebody wants to see the gradient of this very tensor: by a hook, or by retain_grad.
bool is_listened_to(const at::Tensor& tensor);

}  // namespace triaccel
