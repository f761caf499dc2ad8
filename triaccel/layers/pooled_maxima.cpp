#include "triaccel/layers/pooled_maxima.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>
#include <vector>

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

class PoolNode final : public autograd::Node {
 public:
  PoolNode(at::Tensor taps, std::vector<std::int64_t> sizes, const PoolGeometry& how)
      : taps_(std::move(taps)), sizes_(std::move(sizes)), how_(how) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    const at::NoGradGuard no_grad;
    if (!gradients[0].defined()) return {{}};
    return {max_pool_gradient(gradients[0].contiguous(at::MemoryFormat::ChannelsLast), taps_,
                              sizes_, how_)};
  }
  void release_variables() override { taps_.reset(); }
  std::string name() const override { return "triaccel::PooledMaxima"; }

 private:
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
