#include "triaccel/policies/precision/precision_paper.h"

#include <cmath>
#include <limits>

#include "triaccel/policies/compression/order_statistics.h"

namespace triaccel {

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

}  // namespace triaccel
