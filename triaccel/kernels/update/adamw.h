#pragma once

#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels {

/// Betas in FP64: 1 - 0.999f is already wrong in the fifth digit.
struct AdamWStep {
  double beta1 = 0.9;
  double beta2 = 0.999;
  float epsilon = 1e-8f;
  float weight_decay = 0;
};

/// For every tensor whose gate lets it through, with g already multiplied as update_gate.h says
/// (gradients stored as F16 divided by scales[layer].scale too), lr = learning_rates[layer] and
/// t = the number of this step among the applied ones (Loshchilov & Hutter 2019, as
/// torch.optim.AdamW):
///   p <- p - lr * weight_decay * p
///   m <- beta1 * m + (1 - beta1) * g;   v <- beta2 * v + (1 - beta2) * g^2
///   p <- p - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
/// p = parameter, g = gradient, m = state1, v = state2. No bit of the other tensors changes. Moves
/// 24 bytes and a gradient per element.
namespace cpu {
void adamw_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs, AdamWStep step);
}
namespace cuda {
void adamw_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs, AdamWStep step,
                  cudaStream_t stream);
}

}  // namespace triaccel::kernels
