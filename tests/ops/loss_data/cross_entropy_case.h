#pragma once

#include <ATen/ATen.h>

#include <tuple>

#include "triaccel/ops/loss_data/cross_entropy.h"

namespace triaccel {

/// Random logits, rounded to `type`, and labels.
struct CrossEntropyCase {
  at::Tensor logits, labels;

  CrossEntropyCase(std::int64_t rows, std::int64_t classes, at::ScalarType type)
      : logits((at::randn({rows, classes}) * 3).to(type)),
        labels(at::randint(classes, {rows}, at::kLong)) {}

  /// Mean loss and its gradient times `factor` in FP64, by torch.
  std::tuple<double, at::Tensor> in_fp64(double smoothing, double factor) const {
    const at::Tensor x = logits.to(at::kDouble).cpu().requires_grad_();
    const at::Tensor loss =
        at::cross_entropy_loss(x, labels.cpu(), {}, at::Reduction::Mean, -100, smoothing);
    (loss * factor).backward();
    return {loss.item<double>(), x.grad()};
  }
};

/// Whether every element is as near as its type and FP32 arithmetic allow. `factor` is the largest
/// a gradient can be: the last bit of p - 1 is worth that much of it.
inline bool is_close(const at::Tensor& found, const at::Tensor& expected, double factor) {
  const at::ScalarType type = found.scalar_type();
  const double half_unit = type == at::kBFloat16 ? 0x1.0p-8 : type == at::kHalf ? 0x1.0p-11 : 0;
  const double subnormal = type == at::kHalf ? 0x1.0p-25 : 0;  // half of FP16's smallest number
  return at::allclose(found.cpu().to(at::kDouble), expected, half_unit + 5e-6,
                      3e-7 * factor + subnormal);
}

}  // namespace triaccel
