#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/policies/compression/rate_curve.h"

namespace triaccel {

/// Where every tensor stands on its curve.
struct BitAllocation {
  std::vector<RatePoint> points = {};  // one a curve
  std::int64_t bytes = 0;
  bool fits = true;  // false: even the cheapest ways take more than the budget; these are given
};

/// The fewest bytes that tensors can take.
std::int64_t least_bytes(std::span<const RateCurve* const> curves);

/// Spends a budget where it lowers the sum of weight * error most per byte, step by step. A step
/// that does not fit is taken in part, by eighths of a bit, or not at all, and others go on. More
/// budget never gives a larger sum; the same question has the same answer.
BitAllocation allocate_bits(std::span<const RateCurve* const> curves,
                            std::span<const double> weights, std::int64_t budget);

/// Each tensor on its own: the fewest bytes whose error is at most the permitted one.
BitAllocation allocate_errors(std::span<const RateCurve* const> curves,
                              std::span<const double> permitted_errors);

}  // namespace triaccel
