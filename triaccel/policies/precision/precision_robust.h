#pragma once

#include <vector>

#include "triaccel/core/layer_registry.h"
#include "triaccel/core/precision.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/compression/gradient_variance.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Mean squared rounding error of a value stored in `p`, relative to its square; 0 for FP32, the
/// reference.
///
/// A value m 2^e, 1 <= m < 2, is rounded to a multiple of u = 2^(e - f), f the stored fraction
/// bits. The error is uniform in +-u/2, so its mean square is u^2 / 12. With m log-uniform (what
/// gradients, which span many binades, are close to) the mean of 1/m^2 is 3 / (8 ln 2), and the
/// relative mean square is 2^(-2f) / 12 * 3 / (8 ln 2) = 2^(-2f) / (32 ln 2).
/// BF16, f = 7: root mean square 1.66e-3; FP16, f = 10: 2.07e-4.
double relative_rounding_error(Precision p);

/// What speaks about the precision of one layer in a tick.
struct PrecisionEvidence {
  LayerSignals signals = {};
  double variance_score = 0;    // of log v among the layers of its kind
  double gradient_noise = 0;    // trace of one sample's gradient covariance; 0: not measured
  std::int64_t batch_size = 1;  // over which that noise averages out
  Precision current = Precision::Bf16;
};

/// Whether FP16 holds the layer's gradients under the layer's own scale: almost none round to zero,
/// and the largest stays clear of 65504. Stricter by the hysteresis for a layer not yet in FP16.
bool fits_fp16(const PrecisionEvidence& evidence, const PrecisionOptions& options);

/// Whether rounding in `p` adds more to the gradient than the choice of the mini-batch does:
/// 3 relative_rounding_error sum(g^2) > noise / B. A product rounds its result and both operands;
/// the operands' errors average out over the sum, so three is the most.
bool rounding_shows(Precision p, const PrecisionEvidence& evidence, double hysteresis);

/// FP16 where it is wanted, fits and the layer is calm; FP32 where rounding shows or where the only
/// 16-bit format of the device does not fit; BF16 otherwise.
Precision robust_precision(const PrecisionEvidence& evidence, const PrecisionOptions& options);

/// How far each layer's log v is from the median of the layers of its kind; 0 where not measured.
std::vector<double> variance_scores(const GradientVariance& variance,
                                    const std::vector<LayerKind>& kinds);

}  // namespace triaccel
