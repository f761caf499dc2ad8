#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {

/// The q-quantile with linear interpolation; q in [0, 1], `values` not empty.
inline double quantile(std::vector<double> values, double q) {
  ensure(!values.empty(), "a quantile needs at least one value");
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

/// Location and scale, robust against outliers.
struct RobustSpread {
  double median = 0;
  double deviation = 0;  // median absolute deviation, scaled to a normal's standard deviation

  /// Deviations of `value` from the median; 0 if the deviation is 0.
  double score(double value) const { return deviation > 0 ? (value - median) / deviation : 0; }
};

/// The deviation is 0 for fewer than three values.
inline RobustSpread robust_spread(const std::vector<double>& values) {
  if (values.empty()) return {};
  RobustSpread spread{.median = quantile(values, 0.5)};
  if (values.size() < 3) return spread;
  std::vector<double> distances;
  for (double value : values) distances.push_back(std::abs(value - spread.median));
  spread.deviation = 1.4826 * quantile(distances, 0.5);
  return spread;
}

}  // namespace triaccel
