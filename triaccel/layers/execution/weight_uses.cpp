#include "triaccel/layers/execution/weight_uses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "triaccel/layers/execution/gradient_delivery.h"

namespace triaccel {

WeightUses::WeightUses(std::vector<at::Tensor> weights, at::Tensor scales)
    : weights_(std::move(weights)),
      scales_(std::move(scales)),
      uses_(weights_.size()),
      was_used_(weights_.size()),
      used_elsewhere_(weights_.size()) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!weights_[i].requires_grad()) continue;
    const unsigned hook = weights_[i].register_hook([this, i](const at::Tensor&) {
      if (in_step_) used_elsewhere_[i] = true;
      if (side_ != nullptr) side_->updates.join();  // what the layer left may come from there
      at::Tensor& held = weights_[i].mutable_grad();
      const at::NoGradGuard no_grad;
      if (held.defined()) held = wide_gradient(held, scales_, static_cast<std::int64_t>(i));
    });
    hooks_.emplace_back(i, hook);
  }
}

WeightUses::~WeightUses() {
  for (const auto& [index, hook] : hooks_) weights_[index].remove_hook(hook);
}

void WeightUses::begin_step(SideStreams* side) {
  in_step_ = true;
  side_ = side;
}

void WeightUses::end_step() {
  in_step_ = false;
  side_ = nullptr;
}

void WeightUses::begin_pass() {
  std::ranges::fill(uses_, 0);
  biases_.clear();
  shares_bias_ = false;
}

void WeightUses::note(std::int64_t layer, const std::optional<at::Tensor>& bias) {
  if (!counts_) return;
  was_used_[static_cast<std::size_t>(layer)] = true;
  ++uses_[static_cast<std::size_t>(layer)];
  if (bias && bias->defined()) shares_bias_ |= !biases_.insert(bias->const_data_ptr()).second;
}

bool WeightUses::each_once() const {
  if (shares_bias_) return false;
  for (std::size_t i = 0; i < uses_.size(); ++i)
    if (uses_[i] > 1 || (uses_[i] == 1 && used_elsewhere_[i])) return false;
  return true;
}

bool BatchCounters::is_counter(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kLong && tensor.dim() == 0 && !tensor.requires_grad();
}

bool BatchCounters::count_up(const at::Tensor& counter) {
  if (!is_counter(counter)) return false;
  touch(counter);  // a norm that is used twice
  counters_.push_back(counter);
  return true;
}

void BatchCounters::touch(const at::Tensor& tensor) {
  if (std::ranges::any_of(counters_, [&](const at::Tensor& c) { return c.is_same(tensor); }))
    add_up();
}

void BatchCounters::add_up() {
  const at::NoGradGuard no_grad;
  if (!counters_.empty()) at::_foreach_add_(std::exchange(counters_, {}), 1);
}

}  // namespace triaccel
