#include "triaccel/layers/execution/gradient_delivery.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "triaccel/ops/tensors/bias.h"
#include "triaccel/ops/tensors/tensor_check.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

/// Whether our kernels add and sum along this dimension.
bool takes_bias_along(const at::Tensor& output, std::int64_t channel) {
  return output.is_cuda() && takes_bias(output) &&
         channel == (output.dim() == 4 ? 1 : output.dim() - 1);
}

}  // namespace

at::Tensor wide_gradient(const at::Tensor& gradient, const at::Tensor& scales, std::int64_t layer) {
  if (gradient.scalar_type() != at::kHalf) return gradient.to(at::kFloat);
  return scaled_cast(gradient, at::kFloat, scales, layer, /*divide=*/true,
                     /*record_maximum=*/false);
}

void GradientDelivery::give(const at::Tensor& weight, at::Tensor gradient) const {
  at::Tensor& held = weight.mutable_grad();
  const bool adds_up = accumulate || held.defined();
  if (adds_up && gradient.scalar_type() == at::kHalf)
    gradient = wide_gradient(gradient, scales, layer);
  if (held.defined()) {
    if (held.scalar_type() != at::kFloat) held = wide_gradient(held, scales, layer);
    held.add_(gradient);
    return;
  }
  const at::ScalarType type = adds_up ? at::kFloat : gradient.scalar_type();
  // Multi-tensor kernels walk weight and gradient in one order.
  if (gradient.scalar_type() == type && same_memory_order(gradient, weight) && !sum.defined())
    held = std::move(gradient);
  else
    held = (sum.defined() ? sum : at::empty_like(weight, weight.options().dtype(type)))
               .copy_(gradient);
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

void add_bias_along(at::Tensor& output, const at::Tensor& bias, std::int64_t channel) {
  if (takes_bias_along(output, channel) && bias.scalar_type() == at::kFloat)
    return add_bias(output, bias);
  std::vector<std::int64_t> shape(static_cast<std::size_t>(output.dim()), 1);
  shape[static_cast<std::size_t>(channel)] = -1;
  output.add_(bias.view(shape));
}

at::Tensor bias_gradient_along(const at::Tensor& output_gradient, std::int64_t channel) {
  if (takes_bias_along(output_gradient, channel)) return bias_gradient(output_gradient);
  std::vector<std::int64_t> others;
  for (std::int64_t d = 0; d < output_gradient.dim(); ++d)
    if (d != channel) others.push_back(d);
  if (others.empty()) return output_gradient.to(at::kFloat);
  return output_gradient.sum(others, false, at::kFloat);
}

at::Tensor LayerBias::gradient(const at::Tensor& output_gradient, SideStream* side) const {
  if (!leaves_gradient(side)) return bias_gradient_along(output_gradient, channel);
  std::vector<at::Tensor> reads = {output_gradient};
  if (values.grad().defined()) reads.push_back(values.grad());  // of another use
  side->run([&] { add_to_grad(values, bias_gradient_along(output_gradient, channel)); },
            std::move(reads));
  return {};
}

}  // namespace triaccel
