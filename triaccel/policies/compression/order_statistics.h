#pragma once

#include <vector>

namespace triaccel {

/// The q-quantile, linear between neighbours; q in [0, 1], `values` not empty.
double quantile(std::vector<double> values, double q);

/// Middle and width of numbers of which a few may be far off.
struct RobustSpread {
  double median = 0;
  double deviation = 0;  // median absolute deviation, scaled to a normal's standard deviation

  /// How many deviations `value` is from the median; 0 where nothing deviates.
  double score(double value) const { return deviation > 0 ? (value - median) / deviation : 0; }
};

/// Of fewer than three values nothing can be said: the deviation is 0.
RobustSpread robust_spread(const std::vector<double>& values);

}  // namespace triaccel
