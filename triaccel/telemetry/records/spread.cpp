#include "triaccel/telemetry/records/spread.h"

#include <cmath>

namespace triaccel {

Spread spread_of(std::span<const double> values) {
  Spread spread;
  double sum = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    ++spread.count;
    sum += value;
  }
  if (spread.count == 0) return spread;
  spread.mean = sum / static_cast<double>(spread.count);
  if (spread.count == 1) return spread;
  double squares = 0;
  for (const double value : values)
    if (std::isfinite(value)) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / static_cast<double>(spread.count - 1));
  return spread;
}

}  // namespace triaccel
