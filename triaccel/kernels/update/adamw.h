#pragma once

#include <cmath>
#include <cstdint>
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

/// What one AdamW step multiplies with, the same for every element.
struct AdamWFactors {
  float beta1, beta2;
  float gain1, gain2;  // 1 - beta
  float epsilon, weight_decay;
  float inverse_bias1;       // 1 / (1 - beta1^t)
  float inverse_root_bias2;  // 1 / sqrt(1 - beta2^t)
};

TRIACCEL_HOST_DEVICE inline AdamWFactors adamw_factors(AdamWStep step, std::int64_t applied_steps) {
  const double t = applied_steps > 1 ? static_cast<double>(applied_steps) : 1.0;
  const double bias1 = 1.0 - pow(step.beta1, t);
  const double bias2 = 1.0 - pow(step.beta2, t);
  return {static_cast<float>(step.beta1),
          static_cast<float>(step.beta2),
          static_cast<float>(1.0 - step.beta1),
          static_cast<float>(1.0 - step.beta2),
          step.epsilon,
          step.weight_decay,
          static_cast<float>(1.0 / bias1),
          static_cast<float>(1.0 / sqrt(bias2))};
}

/// `gradient` is already unscaled and clipped.
TRIACCEL_HOST_DEVICE inline void adamw_element(float& p, float& m, float& v, float gradient,
                                               float learning_rate, AdamWFactors f) {
  m = f.beta1 * m + f.gain1 * gradient;
  v = f.beta2 * v + f.gain2 * gradient * gradient;
  const float decayed = p * (1.0f - learning_rate * f.weight_decay);
  const float denominator = sqrtf(v) * f.inverse_root_bias2 + f.epsilon;
  p = decayed - learning_rate * f.inverse_bias1 * m / denominator;
}

}  // namespace triaccel::kernels
