#include "triaccel/policies/compression/gradient_variance.h"

#include <algorithm>
#include <cmath>

namespace triaccel {

GradientVariance::GradientVariance(std::size_t layers, double beta, bool starts_at_first)
    : beta_(beta), starts_at_first_(starts_at_first), average_(layers, -1.0) {}

std::int64_t GradientVariance::add(const std::vector<LayerSignals>& signals) {
  std::int64_t first_measured = 0;
  for (std::size_t l = 0; l < std::min(signals.size(), average_.size()); ++l) {
    if (signals[l].count == 0 || signals[l].nonfinite > 0) continue;
    const double now = std::max(0.0, signals[l].variance());  // cancellation may leave -1e-20
    if (!std::isfinite(now)) continue;
    const bool first = !known(l);
    const double before = !first ? average_[l] : starts_at_first_ ? now : 0.0;
    average_[l] = beta_ * before + (1 - beta_) * now;
    first_measured += first ? 1 : 0;
  }
  return first_measured;
}

void GradientVariance::save(std::vector<StateView>& state) const {
  state.push_back(number_state("variance", average_));
}

void GradientVariance::restore(const StateMap& saved) {
  average_ = numbers_from<double>(saved, "variance", static_cast<std::int64_t>(average_.size()));
}

}  // namespace triaccel
