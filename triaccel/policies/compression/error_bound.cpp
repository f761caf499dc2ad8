#include "triaccel/policies/compression/error_bound.h"

#include <algorithm>
#include <cmath>

#include "triaccel/policies/compression/codec_rules.h"

namespace triaccel {
namespace {

// Shares of the bound. Other samples and later weights have other errors: a margin is left.
constexpr double kHighest = 0.75;
constexpr double kWanted = 0.5;
constexpr double kFarBelow = 0.2;
constexpr double kMostGrowth = 16;  // at once: codes of one bit obey no law

}  // namespace

double permitted_error(const SavedStatistics& tensor, double eps) {
  const double added = tensor.error_gain * tensor.variance;
  if (tensor.weight_gradient_square > 0 && added > 0)
    return eps * tensor.weight_gradient_square / (2 * added);
  return eps / (2 * sensitivity_of(tensor));
}

double corrected_scale(double scale, double measured_error, double bound, bool may_grow) {
  if (!std::isfinite(measured_error)) return scale;
  if (measured_error > kHighest * bound) return scale * kWanted * bound / measured_error;
  if (!may_grow || measured_error >= kFarBelow * bound) return scale;
  const double growth =
      measured_error > 0 ? std::min(kWanted * bound / measured_error, kMostGrowth) : kMostGrowth;
  return std::min(scale * growth, 1.0);  // more would break the promise to single weights
}

}  // namespace triaccel
