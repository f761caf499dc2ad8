#pragma once

#include <vector>

namespace triaccel {

/// The q-quantile with linear interpolation; q in [0, 1], `values` not empty.
double quantile(std::vector<double> values, double q);

/// Location and scale, robust against outliers.
struct RobustSpread {
  double median = 0;
  double deviation = 0;  // median absolute deviation, scaled to a normal's standard deviation

  /// Deviations of `value` from the median; 0 if the deviation is 0.
  double score(double value) const { return deviation > 0 ? (value - median) / deviation : 0; }
};

/// The deviation is 0 for fewer than three values.
RobustSpread robust_spread(const std::vector<double>& values);

}  // namespace triaccel
