#pragma once

#include <vector>

#include "triaccel/core/precision.h"

namespace triaccel {

struct VarianceThresholds {
  double low = 0;
  double high = 0;
};

/// Tri-Accel, section 3.1: FP16 if v < tau_low, BF16 if tau_low <= v < tau_high, FP32 above.
Precision paper_precision(double variance, const VarianceThresholds& tau);

/// Quantiles of log v over the layers. Layers with v = 0 have no logarithm and are left out; with
/// none left everything stays BF16.
VarianceThresholds thresholds_from(const std::vector<double>& variances, double quantile_low,
                                   double quantile_high);

}  // namespace triaccel
