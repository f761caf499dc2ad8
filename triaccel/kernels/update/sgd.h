#pragma once

#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels {

struct SgdStep {
  float momentum = 0.9f;
  float weight_decay = 0;
  bool nesterov = false;
};

/// `gradient` is already unscaled and clipped.
TRIACCEL_HOST_DEVICE inline void sgd_element(float& p, float& v, float gradient,
                                             float learning_rate, SgdStep step) {
  const float direction = gradient + step.weight_decay * p;
  v = step.momentum * v + direction;
  p -= learning_rate * (step.nesterov ? direction + step.momentum * v : v);
}

/// For every tensor whose gate lets it through, with m = what update_gate.h says gradients are
/// multiplied with, divided by scales[layer].scale for those stored as F16, and
/// lr = learning_rates[layer]:
///   d <- m * g + weight_decay * p;   v <- momentum * v + d;   p <- p - lr * v
/// (nesterov: p <- p - lr * (d + momentum * v)). p = parameter, g = gradient, v = state1.
/// No bit of the other tensors changes. Moves 16 bytes and a gradient per element.
namespace cpu {
void sgd_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs, SgdStep step);
}
namespace cuda {
void sgd_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs, SgdStep step,
                cudaStream_t stream);
}

}  // namespace triaccel::kernels
