#include "triaccel/layers/execution/gradient_delivery.h"

#include <ATen/ATen.h>

#include <utility>

#include "triaccel/ops/tensors/tensor_check.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {

at::Tensor wide_gradient(const at::Tensor& gradient, const at::Tensor& scales, std::int64_t layer) {
  if (gradient.scalar_type() != at::kHalf) return gradient.to(at::kFloat);
  return scaled_cast(gradient, at::kFloat, scales, layer, /*divide=*/true,
                     /*record_maximum=*/false);
}

void GradientDelivery::give(const at::Tensor& weight, at::Tensor gradient) const {
  if (!same_memory_order(gradient, weight))  // multi-tensor kernels walk both in one order
    gradient = at::empty_like(weight, weight.options().dtype(gradient.dtype())).copy_(gradient);
  at::Tensor& held = weight.mutable_grad();
  if (!held.defined() && !accumulate) {
    held = std::move(gradient);
    return;
  }
  at::Tensor wide = wide_gradient(gradient, scales, layer);
  if (held.defined()) wide.add_(wide_gradient(held, scales, layer));
  held = std::move(wide);
}

void GradientDelivery::give_on_side_stream(const at::Tensor& weight,
                                           const std::function<at::Tensor()>& compute,
                                           std::vector<at::Tensor> reads,
                                           const SideStream::Mark& mark) const {
  if (weight.grad().defined()) reads.push_back(weight.grad());  // of another use of the weight
  const auto work = [&] { give(weight, compute()); };
  if (mark)
    side->run_after(mark, work, std::move(reads));
  else
    side->run(work, std::move(reads));
}

void add_to_grad(const at::Tensor& parameter, at::Tensor gradient) {
  at::Tensor& held = parameter.mutable_grad();
  held = held.defined() ? held + gradient : std::move(gradient);
}

}  // namespace triaccel
