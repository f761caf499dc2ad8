#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "triaccel/core/layer_registry.h"
#include "triaccel/core/precision.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Rank of a format: FP16 < BF16 < FP32; integer layers rank below and never change.
constexpr int rank_of(Precision p) {
  if (p == Precision::Int8) return -1;
  return p == Precision::Fp16 ? 0 : p == Precision::Bf16 ? 1 : 2;
}

constexpr Precision higher(Precision a, Precision b) { return rank_of(a) < rank_of(b) ? b : a; }

/// The formats supported by the device; FP32 always is.
struct PrecisionLadder {
  bool bf16 = true;
  bool fp16 = true;

  /// `wanted`, or its replacement if the device does not support it.
  constexpr Precision nearest(Precision wanted) const {
    if (wanted == Precision::Bf16 && !bf16) return fp16 ? Precision::Fp16 : Precision::Fp32;
    if (wanted == Precision::Fp16 && !fp16) return bf16 ? Precision::Bf16 : Precision::Fp32;
    return wanted;
  }

  /// The next higher supported format; FP32 stays.
  constexpr Precision up(Precision from) const {
    return from == Precision::Fp16 && bf16 ? Precision::Bf16 : Precision::Fp32;
  }
};

/// v_l(t) = beta v_l(t-1) + (1 - beta) Var[gradient of layer l]: population variance over the
/// elements of the unscaled gradient.
class GradientVariance {
 public:
  /// `starts_at_first`: v_l begins at the first measurement instead of 0.
  GradientVariance(std::size_t layers, double beta, bool starts_at_first);

  /// Adds a tick; layers without gradients, or with non-finite ones, are skipped. Returns the
  /// number of layers measured for the first time.
  std::int64_t add(const std::vector<LayerSignals>& signals);

  bool known(std::size_t layer) const { return average_[layer] >= 0; }
  double operator[](std::size_t layer) const { return average_[layer]; }

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  double beta_;
  bool starts_at_first_;
  std::vector<double> average_;  // negative: not measured yet
};

struct VarianceThresholds {
  double low = 0;
  double high = 0;
};

/// Tri-Accel, section 3.1: FP16 if v < tau_low, BF16 if tau_low <= v < tau_high, FP32 above.
Precision paper_precision(double variance, const VarianceThresholds& tau);

/// Quantiles of log v over the layers. Layers with v = 0 are skipped; if all are, every layer stays
/// BF16.
VarianceThresholds thresholds_from(const std::vector<double>& variances, double quantile_low,
                                   double quantile_high);

/// Mean squared rounding error of a value stored in `p`, relative to its square; 0 for FP32, the
/// reference.
///
/// A value m 2^e, 1 <= m < 2, is rounded to a multiple of u = 2^(e - f), f the stored fraction
/// bits. The error is uniform in +-u/2, so its mean square is u^2 / 12. With m log-uniform (what
/// gradients, which span many binades, are close to) the mean of 1/m^2 is 3 / (8 ln 2), and the
/// relative mean square is 2^(-2f) / 12 * 3 / (8 ln 2) = 2^(-2f) / (32 ln 2).
/// BF16, f = 7: root mean square 1.66e-3; FP16, f = 10: 2.07e-4.
double relative_rounding_error(Precision p);

/// Inputs for the precision decision of one layer.
struct PrecisionEvidence {
  LayerSignals signals = {};
  double variance_score = 0;    // of log v among the layers of its kind
  double gradient_noise = 0;    // trace of one sample's gradient covariance; 0: not measured
  std::int64_t batch_size = 1;  // over which the noise is averaged
  Precision current = Precision::Bf16;
};

/// Whether FP16 can represent the layer's gradients under its own scale: almost none round to zero
/// and the largest stays well below 65504. Stricter by the hysteresis for layers not yet in FP16.
bool fits_fp16(const PrecisionEvidence& evidence, const PrecisionOptions& options);

/// Whether rounding to `p` adds more noise to the gradient than mini-batch sampling: 3
/// relative_rounding_error sum(g^2) > noise / B. A product rounds its result and both operands;
/// operand errors partly cancel in the sum, so three is an upper bound.
bool rounding_shows(Precision p, const PrecisionEvidence& evidence, double hysteresis);

/// FP16 if preferred, representable and the layer is stable; FP32 if rounding dominates or the only
/// 16-bit format of the device does not fit; otherwise BF16.
Precision robust_precision(const PrecisionEvidence& evidence, const PrecisionOptions& options);

/// Robust z-score of each layer's log v among layers of its kind; 0 if not measured.
std::vector<double> variance_scores(const GradientVariance& variance,
                                    const std::vector<LayerKind>& kinds);

}  // namespace triaccel
