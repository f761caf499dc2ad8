#include "triaccel/policies/batch/batch_rules.h"

#include <cmath>

namespace triaccel {

std::int64_t paper_batch(std::int64_t batch, double used_bytes, double limit_bytes,
                         const BatchOptions& options) {
  if (used_bytes < options.rho_low * limit_bytes) return batch + options.delta_up;
  if (used_bytes > options.rho_high * limit_bytes) return batch - options.delta_down;
  return batch;
}

double rate_for_batch(RateRule rule, std::int64_t first, std::int64_t batch,
                      const GradientNoise& noise) {
  const auto b0 = static_cast<double>(first);
  const auto b = static_cast<double>(batch);
  switch (rule) {
    case RateRule::None:
      return 1;
    case RateRule::Linear:
      return b / b0;
    case RateRule::Sqrt:
      return std::sqrt(b / b0);
    case RateRule::AdaScale: {
      const double variance = noise.noise();
      if (variance <= 0) return std::sqrt(b / b0);
      return (variance / b0 + noise.signal()) / (variance / b + noise.signal());
    }
  }
  return 1;
}

}  // namespace triaccel
