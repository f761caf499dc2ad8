#include "triaccel/layers/execution/weight_uses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace triaccel {

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
    if (uses_[i] > 1 || (uses_[i] == 1 && others_->came_to(static_cast<std::int64_t>(i))))
      return false;
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
