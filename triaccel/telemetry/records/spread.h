#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace triaccel {

/// A quantity over seeds.
struct Spread {
  std::size_t count = 0;
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();  // of the sample; NaN for one seed
};

/// What is not finite is left out.
Spread spread_of(std::span<const double> values);

}  // namespace triaccel
