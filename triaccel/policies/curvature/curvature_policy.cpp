#include "triaccel/policies/curvature/curvature_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/policies/precision/order_statistics.h"

namespace triaccel {

CurvaturePolicy::CurvaturePolicy(const ControlOptions& options, const StepPlan& start,
                                 std::vector<bool> normalized)
    : rules_(options.curvature),
      set_(options.set),
      guards_(options.guards),
      normalized_(std::move(normalized)),
      lambda_(start.layers.size(), 0.0),
      known_(start.layers.size(), 0),
      promoted_(start.layers.size(), false),
      tau_(options.curvature.automatic ? 0 : options.curvature.tau) {
  normalized_.resize(start.layers.size());
  for (const LayerPlan& layer : start.layers) start_scales_.push_back(layer.learning_rate_scale);
}

void CurvaturePolicy::add(const CurvatureReport& probe, PolicyEvents& events) {
  if (!probe.skipped.empty() || probe.layers.empty()) return;
  std::int64_t negative = 0;
  for (std::size_t l = 0; l < std::min(lambda_.size(), probe.layers.size()); ++l) {
    const double lambda = probe.layers[l].largest();
    if (probe.layers[l].eigenvalues.empty() || !std::isfinite(lambda)) continue;
    known_[l] = 1;
    negative += lambda < 0 ? 1 : 0;
    if (set_ == PolicySet::Robust)
      lambda_[l] = smoothed_curvature(lambda_[l], lambda, rules_);
    else
      lambda_[l] = guards_.no_negative_curvature ? std::max(0.0, lambda) : lambda;
  }
  const bool paper = set_ == PolicySet::Paper;
  if (negative > 0 && (!paper || guards_.no_negative_curvature))
    events.push_back(text("guard: negative curvature of ", negative, " layers treated as zero"));
  if (rules_.automatic) find_tau(events);
  std::int64_t floored = 0;
  for (std::size_t l = 0; l < lambda_.size(); ++l) {
    promoted_[l] =
        known_[l] != 0 && promoted_by_curvature(promoted_[l], lambda_[l], tau_, rules_.hysteresis);
    if (paper && guards_.rate_floor && known_[l] != 0)
      floored += paper_rate_share(lambda_[l], rules_.alpha) < rules_.rate_floor ? 1 : 0;
  }
  if (floored > 0)
    events.push_back(text("guard: learning rate of ", floored, " layers limited to ",
                          rules_.rate_floor, " of the schedule"));
}

void CurvaturePolicy::find_tau(PolicyEvents& events) {
  if (set_ == PolicySet::Paper && tau_ > 0) return;  // fixed at the first refresh
  std::vector<double> positive;
  for (std::size_t l = 0; l < lambda_.size(); ++l)
    if (known_[l] != 0 && lambda_[l] > 0)
      positive.push_back(set_ == PolicySet::Paper ? lambda_[l] : std::log(lambda_[l]));
  if (positive.empty()) return;
  if (set_ == PolicySet::Paper) {
    tau_ = quantile(positive, rules_.quantile);
    events.push_back(text("curvature threshold from the first probe: ", tau_));
  } else {
    const RobustSpread spread = robust_spread(positive);
    tau_ = spread.deviation > 0 ? std::exp(spread.median + rules_.outlier_z * spread.deviation) : 0;
  }
}

double CurvaturePolicy::share(std::size_t layer, double learning_rate) const {
  if (known_[layer] == 0) return 1;
  // Steps that are too long grow a weight whose scale has no effect, until they are short for it.
  if (set_ == PolicySet::Robust && normalized_[layer]) return 1;
  if (set_ == PolicySet::Robust) return robust_rate_share(lambda_[layer], learning_rate, rules_);
  const double share = paper_rate_share(lambda_[layer], rules_.alpha);
  return guards_.rate_floor ? std::max(share, rules_.rate_floor) : share;
}

void CurvaturePolicy::apply(double learning_rate, StepPlan& plan) const {
  for (std::size_t l = 0; l < lambda_.size(); ++l) {
    const auto share_now = static_cast<float>(share(l, learning_rate));
    if (std::isfinite(share_now))  // the paper's rule can divide by zero without its guards
      plan.layers[l].learning_rate_scale = start_scales_[l] * share_now;
  }
}

void CurvaturePolicy::save(std::vector<StateView>& state) const {
  state.push_back(number_state("curvature", lambda_));
  state.push_back(number_state("curvature.known", known_));
  state.push_back(number_state("curvature.lifted",
                               std::vector<std::uint8_t>(promoted_.begin(), promoted_.end())));
  state.push_back(number_state<double>("curvature.tau", {tau_}));
}

void CurvaturePolicy::restore(const StateMap& saved) {
  const auto layers = static_cast<std::int64_t>(lambda_.size());
  lambda_ = numbers_from<double>(saved, "curvature", layers);
  known_ = numbers_from<std::uint8_t>(saved, "curvature.known", layers);
  const auto promoted = numbers_from<std::uint8_t>(saved, "curvature.lifted", layers);
  promoted_.assign(promoted.begin(), promoted.end());
  tau_ = numbers_from<double>(saved, "curvature.tau", 1)[0];
}

double paper_rate_share(double lambda, double alpha) { return 1 / (1 + alpha * lambda); }

double robust_rate_share(double lambda, double learning_rate, const CurvatureRules& rules) {
  const double step = learning_rate * lambda;
  if (!(step > 0)) return 1;
  return std::clamp(rules.cap * 2 * (1 + rules.momentum) / step, rules.rate_floor, 1.0);
}

double smoothed_curvature(double average, double lambda, const CurvatureRules& rules) {
  if (average <= 0) return std::max(0.0, lambda);
  if (lambda <= 0) return average / rules.most_change;
  const double ratio = std::pow(lambda / average, 1 - rules.smoothing);
  return average * std::clamp(ratio, 1 / rules.most_change, rules.most_change);
}

bool promoted_by_curvature(bool promoted, double lambda, double tau, double hysteresis) {
  if (tau <= 0) return false;
  return promoted ? lambda >= tau * (1 - hysteresis) : lambda > tau;
}

}  // namespace triaccel
