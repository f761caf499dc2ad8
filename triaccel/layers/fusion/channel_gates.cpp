#include "triaccel/layers/fusion/channel_gates.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <utility>
#include <vector>

#include "triaccel/layers/convolution/kept_map.h"
#include "triaccel/layers/execution/left_gradient.h"
#include "triaccel/ops/norm/channel_gate.h"
#include "triaccel/ops/tensors/autograd_node.h"
#include "triaccel/ops/tensors/even_pixels.h"

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

/// The gradient of a map from the gradient of its mean, and from that of its gated product, which
/// the product leaves here.
class MeanNode final : public autograd::Node {
 public:
  explicit MeanNode(const at::Tensor& map)
      : map_(map.getIntrusivePtr()), sizes_(map.sizes().vec()) {}

  /// Not if the map was changed in place since: it then has another history.
  bool is_of(const at::Tensor& map) const {
    return map_._unsafe_get_target() == map.unsafeGetTensorImpl() &&
           next_edge(0) == autograd::impl::gradient_edge(map);
  }

  /// False: another product has left its gradient.
  bool leave(const at::Tensor& product_gradient, const at::Tensor& gates) {
    if (product_gradient_.defined()) return false;
    product_gradient_ = product_gradient;
    gates_ = gates;
    return true;
  }

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    require_single_backward();
    const at::NoGradGuard no_grad;
    const at::Tensor product = std::exchange(product_gradient_, {});
    const at::Tensor gates = std::exchange(gates_, {});
    if (!gradients[0].defined() && !product.defined()) return {{}};
    const at::Tensor mean = gradients[0].defined() ? gradients[0].contiguous() : at::Tensor();
    return {gated_map_gradient(product, gates, mean, sizes_)};
  }
  std::string name() const override { return "triaccel::MeanOfChannels"; }

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl> map_;  // to know it again
  std::vector<std::int64_t> sizes_;
  at::Tensor product_gradient_, gates_;
};

/// The node of the mean of `map` among those that `gates` were computed by, a few operators back:
/// backward comes past it after the product.
std::shared_ptr<MeanNode> mean_behind(const at::Tensor& gates, const at::Tensor& map) {
  constexpr int most_operators = 12;  // two products with biases, an activation, a sigmoid
  std::vector<NodePtr> front = {gates.grad_fn()};
  for (int step = 0; step < most_operators && !front.empty(); ++step) {
    std::vector<NodePtr> next;
    for (const auto& node : front) {
      if (!node) continue;
      if (auto mean = node_as<MeanNode>(node))
        if (mean->is_of(map)) return mean;
      for (const autograd::Edge& edge : node->next_edges())
        if (edge.is_valid()) next.push_back(edge.function);
    }
    front = std::move(next);
  }
  return nullptr;
}

class GateNode final : public autograd::Node {
 public:
  GateNode(const at::Tensor& map, const at::Tensor& gates, bool recompute_norms)
      : map_(map, recompute_norms),
        gates_(gates, /*is_output=*/false),
        mean_(mean_behind(gates, map)) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    require_single_backward();
    const at::NoGradGuard no_grad;
    if (!gradients[0].defined()) return {{}, {}};
    const at::Tensor map = map_.get(getptr()), gates = gates_.unpack();
    const at::Tensor output = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor of_map, of_gates;
    if (task_should_compute_output(1)) of_gates = gates_gradient(output, map);
    const bool left = mean_ && of_gates.defined() && mean_->leave(output, gates);
    if (!left && task_should_compute_output(0))
      of_map = gated_map_gradient(output, gates, {}, map.sizes());
    return {std::move(of_map), std::move(of_gates)};
  }
  void release_variables() override {
    map_.release();
    gates_.reset_data();
  }
  std::string name() const override { return "triaccel::GatedChannels"; }

 private:
  KeptMap map_;
  autograd::SavedVariable gates_;
  std::shared_ptr<MeanNode> mean_;
};

bool is_gate_of(const at::Tensor& gates, const at::Tensor& map) {
  return map.is_cuda() && map.dim() == 4 && gates.dim() == 4 && gates.size(2) == 1 &&
         gates.size(3) == 1 && gates.size(0) == map.size(0) && gates.size(1) == map.size(1) &&
         gates.scalar_type() == map.scalar_type() && gates_channels(map, gates);
}

class PoolNode final : public TakesGradient {
 public:
  PoolNode(at::Tensor taps, std::vector<std::int64_t> sizes, const PoolGeometry& geometry)
      : taps_(std::move(taps)), sizes_(std::move(sizes)), geometry_(geometry) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    require_single_backward();
    const at::NoGradGuard no_grad;
    at::Tensor gradient = std::move(gradients[0]);
    auto [added, maker] = std::exchange(left_, {});
    if (!gradient.defined() && !added.defined()) return {{}};
    maker.wait();
    if (added.defined() && added.sizes() != taps_.sizes())
      added = scatter_even_pixels(added, taps_.sizes());
    if (!gradient.defined()) std::swap(gradient, added);
    return {
        max_pool_gradient(channels_last(gradient), taps_, sizes_, geometry_, channels_last(added))};
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
  PoolGeometry geometry_;
};

}  // namespace

std::optional<at::Tensor> mean_of_channels(const at::Tensor& map) {
  if (!map.is_cuda() || !gates_channels(map, {})) return {};
  at::Tensor mean;
  {
    const at::NoGradGuard no_grad;
    mean = pixel_mean(map);
  }
  if (!at::GradMode::is_enabled() || !map.requires_grad()) return mean;
  const auto node = make_node<MeanNode>(map);
  node->set_next_edges(autograd::collect_next_edges(map));
  autograd::set_history(mean, node);
  return mean;
}

std::optional<at::Tensor> gated_channels(const at::Tensor& left, const at::Tensor& right,
                                         bool recompute_norms) {
  const bool left_is_map = is_gate_of(right, left);
  if (!left_is_map && !is_gate_of(left, right)) return {};
  const at::Tensor& map = left_is_map ? left : right;
  const at::Tensor& gates = left_is_map ? right : left;
  at::Tensor product;
  {
    const at::NoGradGuard no_grad;
    product = gate_channels(map, gates);
  }
  if (!at::GradMode::is_enabled() || !autograd::compute_requires_grad(map, gates)) return product;
  const auto node = make_node<GateNode>(map, gates, recompute_norms);
  node->set_next_edges(autograd::collect_next_edges(map, gates));
  autograd::set_history(product, node);
  return product;
}

std::optional<at::Tensor> pooled_maxima(const at::Tensor& map, const PoolGeometry& geometry) {
  if (!map.is_cuda() || !pools_maxima(map, geometry)) return {};
  Maxima maxima;
  {
    const at::NoGradGuard no_grad;
    maxima = max_pool(map, geometry);
  }
  if (!at::GradMode::is_enabled() || !map.requires_grad()) return maxima.values;
  const auto node = make_node<PoolNode>(maxima.taps, map.sizes().vec(), geometry);
  node->set_next_edges(autograd::collect_next_edges(map));
  autograd::set_history(maxima.values, node);
  return maxima.values;
}

}  // namespace triaccel
