#include "triaccel/layers/execution/layer_bias.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "triaccel/layers/execution/gradient_delivery.h"
#include "triaccel/ops/tensors/bias.h"

namespace triaccel {
namespace {

/// Whether our kernels add and sum along this dimension.
bool takes_bias_along(const at::Tensor& output, std::int64_t channel) {
  return output.is_cuda() && takes_bias(output) &&
         channel == (output.dim() == 4 ? 1 : output.dim() - 1);
}

}  // namespace

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
  if (side == nullptr || !values.is_leaf()) return bias_gradient_along(output_gradient, channel);
  std::vector<at::Tensor> reads = {output_gradient};
  if (values.grad().defined()) reads.push_back(values.grad());  // of another use
  side->run([&] { add_to_grad(values, bias_gradient_along(output_gradient, channel)); },
            std::move(reads));
  return {};
}

}  // namespace triaccel
