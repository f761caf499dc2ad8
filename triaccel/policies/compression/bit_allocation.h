#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/policies/compression/rate_curve.h"

namespace triaccel {

/// The chosen point on the rate curve of every tensor.
struct BitAllocation {
  std::vector<RatePoint> points = {};  // one per curve
  std::int64_t bytes = 0;
  bool fits = true;  // false: even the cheapest points exceed the budget; these are returned
};

/// Minimum total bytes.
std::int64_t least_bytes(std::span<const RateCurve* const> curves);

/// Greedy allocation: repeatedly takes the step that lowers the sum of weight * error most per
/// byte. A step that does not fit is taken partially, in eighths of a bit, or skipped. Monotone in
/// the budget and deterministic.
BitAllocation allocate_bits(std::span<const RateCurve* const> curves,
                            std::span<const double> weights, std::int64_t budget);

/// For each tensor independently: the fewest bytes within the permitted error.
BitAllocation allocate_errors(std::span<const RateCurve* const> curves,
                              std::span<const double> permitted_errors);

}  // namespace triaccel
