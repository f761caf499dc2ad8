#include "triaccel/policies/precision/precision_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "triaccel/policies/precision/order_statistics.h"

namespace triaccel {
namespace {

constexpr double kLargestFp16 = 65504;

double rounding_error(int fraction_bits) {
  return std::ldexp(1.0, -2 * fraction_bits) / (32 * std::numbers::ln2);
}

}  // namespace

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

Precision paper_precision(double variance, const VarianceThresholds& tau) {
  if (variance < tau.low) return Precision::Fp16;
  return variance < tau.high ? Precision::Bf16 : Precision::Fp32;
}

VarianceThresholds thresholds_from(const std::vector<double>& variances, double quantile_low,
                                   double quantile_high) {
  std::vector<double> logs;
  for (double v : variances)
    if (v > 0) logs.push_back(std::log(v));
  if (logs.empty()) return {.low = 0, .high = std::numeric_limits<double>::infinity()};
  return {.low = std::exp(quantile(logs, quantile_low)),
          .high = std::exp(quantile(logs, quantile_high))};
}

double relative_rounding_error(Precision p) {
  switch (p) {
    case Precision::Bf16:
      return rounding_error(7);
    case Precision::Fp16:
      return rounding_error(10);
    case Precision::Fp32:
    case Precision::Int8:
      return 0;
  }
  return 0;
}

bool fits_fp16(const PrecisionEvidence& evidence, const PrecisionOptions& options) {
  const LayerSignals& s = evidence.signals;
  if (s.count == 0 || s.nonfinite > 0) return false;
  const double margin = evidence.current == Precision::Fp16 ? 0 : options.hysteresis;
  const double zeros = static_cast<double>(s.fp16_zeros) / static_cast<double>(s.count);
  if (zeros >= options.most_zeros * (1 - margin)) return false;
  const double largest =
      static_cast<double>(s.fp16_scale) * static_cast<double>(s.absolute_maximum);
  return largest <= 0 || std::log2(kLargestFp16 / largest) >= options.headroom_bits * (1 + margin);
}

bool rounding_shows(Precision p, const PrecisionEvidence& evidence, double hysteresis) {
  if (evidence.gradient_noise <= 0) return false;
  const double margin = evidence.current == Precision::Fp32 ? hysteresis : 0;
  const double rounding = 3 * relative_rounding_error(p) * evidence.signals.sum_of_squares;
  const double batch_noise = evidence.gradient_noise / static_cast<double>(evidence.batch_size);
  return rounding > batch_noise * (1 - margin);
}

Precision robust_precision(const PrecisionEvidence& evidence, const PrecisionOptions& options) {
  const bool known = evidence.signals.count > 0 && evidence.signals.nonfinite == 0;
  const bool fp16_fits = options.has_fp16 && fits_fp16(evidence, options);
  Precision wanted = Precision::Fp32;
  if (options.has_bf16) {
    const double margin = evidence.current == Precision::Fp16 ? 0 : options.hysteresis;
    const bool calm = evidence.variance_score < options.most_z - margin;
    wanted = options.prefer_fp16 && fp16_fits && calm ? Precision::Fp16 : Precision::Bf16;
  } else if (options.has_fp16 && (fp16_fits || !known)) {
    wanted = Precision::Fp16;
  }
  return rounding_shows(wanted, evidence, options.hysteresis) ? Precision::Fp32 : wanted;
}

std::vector<double> variance_scores(const GradientVariance& variance,
                                    const std::vector<LayerKind>& kinds) {
  std::vector<double> scores(kinds.size(), 0.0);
  for (LayerKind kind : {LayerKind::Convolution, LayerKind::Linear, LayerKind::Embedding}) {
    std::vector<std::size_t> members;
    std::vector<double> logs;
    for (std::size_t l = 0; l < kinds.size(); ++l) {
      if (kinds[l] != kind || !variance.known(l) || variance[l] <= 0) continue;
      members.push_back(l);
      logs.push_back(std::log(variance[l]));
    }
    const RobustSpread spread = robust_spread(logs);
    for (std::size_t i = 0; i < members.size(); ++i) scores[members[i]] = spread.score(logs[i]);
  }
  return scores;
}

}  // namespace triaccel
