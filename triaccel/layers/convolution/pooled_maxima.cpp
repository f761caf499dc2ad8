#include "triaccel/layers/convolution/pooled_maxima.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>
#include <vector>

#include "triaccel/layers/execution/left_gradient.h"
#include "triaccel/ops/tensors/even_pixels.h"

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

class PoolNode final : public TakesGradient {
 public:
  PoolNode(at::Tensor taps, std::vector<std::int64_t> sizes, const PoolGeometry& how)
      : taps_(std::move(taps)), sizes_(std::move(sizes)), how_(how) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    const at::NoGradGuard no_grad;
    at::Tensor gradient = std::move(gradients[0]);
    auto [added, maker] = std::exchange(left_, {});
    if (!gradient.defined() && !added.defined()) return {{}};
    maker.wait();
    if (added.defined() && added.sizes() != taps_.sizes())
      added = scatter_even_pixels(added, taps_.sizes());
    if (!gradient.defined()) std::swap(gradient, added);
    return {max_pool_gradient(channels_last(gradient), taps_, sizes_, how_, channels_last(added))};
  }
  void release_variables() override {
    taps_.reset();
    left_ = {};
  }
  std::string name() const override { return "triaccel::PooledMaxima"; }

 private:
  static at::Tensor channels_last(const at::Tensor& gradient) {
    return gradient.defined() ? gradient.contiguous(at::MemoryFormat::ChannelsLast) : gradient;
  }

  at::Tensor taps_;
  std::vector<std::int64_t> sizes_;
  PoolGeometry how_;
};

}  // namespace

std::optional<at::Tensor> pooled_maxima(const at::Tensor& map, const PoolGeometry& how) {
  if (!map.is_cuda() || !pools_maxima(map, how)) return {};
  Maxima maxima;
  {
    const at::NoGradGuard no_grad;
    maxima = max_pool(map, how);
  }
  if (!at::GradMode::is_enabled() || !map.requires_grad()) return maxima.values;
  const auto node = std::make_shared<PoolNode>(maxima.taps, map.sizes().vec(), how);
  node->set_next_edges(autograd::collect_next_edges(map));
  autograd::set_history(maxima.values, node);
  return maxima.values;
}

}  // namespace triaccel
