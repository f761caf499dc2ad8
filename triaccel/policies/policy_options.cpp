#include "triaccel/policies/policy_options.h"

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::string_view kWho = "ControlOptions";

/// Also rejects NaN.
void require_between(double value, double low, double high, std::string_view field) {
  require(value >= low && value <= high, kWho, field, " must lie in [", low, ", ", high, "], got ",
          value);
}

void require_at_least(std::int64_t value, std::int64_t low, std::string_view field) {
  require(value >= low, kWho, field, " must be at least ", low, ", got ", value);
}

void check(const PrecisionOptions& o) {
  require(o.beta >= 0 && o.beta < 1, kWho, "precision.beta must lie in [0, 1), got ", o.beta);
  require(o.tau_low >= 0 && o.tau_low <= o.tau_high, kWho,
          "precision.tau_low must lie in [0, tau_high ", o.tau_high, "], got ", o.tau_low);
  require_between(o.quantile_high, 0, 1, "precision.quantile_high");
  require_between(o.quantile_low, 0, o.quantile_high, "precision.quantile_low");
  require_between(o.most_zeros, 0, 1, "precision.most_zeros");
  require_between(o.hysteresis, 0, 1, "precision.hysteresis");
  require_at_least(o.warmup_ticks, 0, "precision.warmup_ticks");
  require_at_least(o.dwell_ticks, 0, "precision.dwell_ticks");
  require_at_least(o.changes_per_tick, 1, "precision.changes_per_tick");
  require_at_least(o.nonfinite_steps, 1, "precision.nonfinite_steps");
  require_at_least(o.nonfinite_ticks, 0, "precision.nonfinite_ticks");
}

void check(const CurvatureRules& o) {
  require_between(o.alpha, 0, 1e30, "curvature.alpha");
  require_between(o.rate_floor, 0, 1, "curvature.rate_floor");
  require_between(o.cap, 0, 1e30, "curvature.cap");
  require_between(o.momentum, 0, 1, "curvature.momentum");
  require(o.smoothing >= 0 && o.smoothing < 1, kWho, "curvature.smoothing must lie in [0, 1), got ",
          o.smoothing);
  require_between(o.most_change, 1, 1e30, "curvature.most_change");
  require_between(o.hysteresis, 0, 1, "curvature.hysteresis");
  require_between(o.tau, 0, 1e300, "curvature.tau");
  require_between(o.quantile, 0, 1, "curvature.quantile");
}

void check(const BatchOptions& o) {
  require_between(o.rho_high, 0, 1, "batch.rho_high");
  require_between(o.rho_low, 0, o.rho_high, "batch.rho_low");
  require_at_least(o.device_bytes, 0, "batch.device_bytes");
  require_at_least(o.smallest, 1, "batch.smallest");
  if (o.largest != 0) require_at_least(o.largest, o.smallest, "batch.largest");
  require_at_least(o.bucket, 1, "batch.bucket");
  require_at_least(o.delta_up, 1, "batch.delta_up");
  require_at_least(o.delta_down, 1, "batch.delta_down");
  require_at_least(o.cool_down_ticks, 0, "batch.cool_down_ticks");
  require_at_least(o.steady_ticks, 0, "batch.steady_ticks");
  require_between(o.steady_gap, 0, o.rho_low, "batch.steady_gap");
  require_between(o.measurement_noise, 0, 1, "batch.measurement_noise");
  require_at_least(o.retry_ticks, 1, "batch.retry_ticks");
  require_between(o.kappa, 0, 1e30, "batch.kappa");
}

}  // namespace

ControlOptions default_options(PolicySet set) {
  ControlOptions options{.set = set};
  if (set == PolicySet::Paper) options.batch.rate = RateRule::None;
  return options;
}

void check_options(const ControlOptions& options) {
  check(options.precision);
  check(options.curvature);
  check(options.batch);
}

}  // namespace triaccel
