#include "triaccel/layers/execution/other_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <utility>

#include "triaccel/layers/execution/gradient_delivery.h"

namespace triaccel {

namespace autograd = torch::autograd;

/// On a parameter's node, which calls it with what came through the graph, perhaps nothing.
class OtherGradients::Hook final : public autograd::FunctionPreHook {
 public:
  Hook(std::shared_ptr<OtherGradients> owner, at::Tensor parameter, std::int64_t layer)
      : owner_(std::move(owner)), parameter_(std::move(parameter)), layer_(layer) {}

  bool is_of(const OtherGradients* owner) const { return owner_.get() == owner; }

  autograd::variable_list operator()(const autograd::variable_list& arrived) override {
    if (arrived[0].defined()) owner_->arrives(parameter_, layer_);
    return arrived;
  }

 private:
  std::shared_ptr<OtherGradients> owner_;
  at::Tensor parameter_;
  std::int64_t layer_;
};

OtherGradients::OtherGradients(std::size_t layers, at::Tensor scales)
    : scales_(std::move(scales)), came_(layers) {}

void OtherGradients::begin_step(SideStream* updates) {
  in_step_ = true;
  updates_ = updates;
}

void OtherGradients::end_step() {
  in_step_ = false;
  updates_ = nullptr;
}

void OtherGradients::watch(const autograd::Edge& edge, const at::Tensor& parameter,
                           std::int64_t layer) {
  if (!edge.is_valid()) return;
  // Whoever keeps a graph keeps the node, and its hooks, for the next one.
  const bool watched = std::ranges::any_of(edge.function->pre_hooks(), [this](const auto& hook) {
    const auto* const ours = dynamic_cast<const Hook*>(hook.get());
    return ours != nullptr && ours->is_of(this);
  });
  if (!watched)
    edge.function->add_pre_hook(std::make_unique<Hook>(shared_from_this(), parameter, layer));
}

void OtherGradients::arrives(const at::Tensor& parameter, std::int64_t layer) {
  if (in_step_) came_[static_cast<std::size_t>(layer)] = true;
  if (updates_ != nullptr) updates_->join();
  const at::NoGradGuard no_grad;
  at::Tensor& held = parameter.mutable_grad();
  if (held.defined()) held = wide_gradient(held, scales_, layer);
}

}  // namespace triaccel
