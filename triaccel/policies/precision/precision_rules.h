#pragma once

#include <vector>

#include "triaccel/core/layer_registry.h"
#include "triaccel/core/precision.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/compression/gradient_variance.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

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
