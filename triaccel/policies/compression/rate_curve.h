#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/policies/compression/compression_options.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {

/// One way to keep a tensor, and what it costs.
struct RatePoint {
  SavedPlan plan = {};
  std::int64_t bytes = 0;
  double error = 0;  // relative; more than predicted for a codec that is not in use yet
};

/// What a tensor's curve depends on besides its statistics.
struct RateQuestion {
  double drop_price = 16;
  int least_bits = 1;       // of codes, on average
  SavedPlan previous = {};  // its codec, if it has codes, is in use
};

/// The ways to keep one tensor that are worth taking, from the fewest bytes to none of the error:
/// each step buys less per byte than the one before. Never empty.
///
/// Codecs by kind: non-zeros or groups for what a ReLU made, groups or a transform of 8, 7 or 4
/// where it was measured for the rest; groups of small maps before a norm are levelled. One that is
/// not in use has its error divided by 1 - hysteresis; without codes before, the plain one
/// (non-zeros, groups) is taken as in use.
class RateCurve {
 public:
  RateCurve(const SavedStatistics& tensor, std::int64_t samples, const RateQuestion& question,
            const CodecOptions& options);

  const std::vector<RatePoint>& points() const { return points_; }

  /// The way furthest along the step from point `index` to the next, and before it, that takes at
  /// most `bytes`. Nothing when the step cannot be divided or not even an eighth of a bit fits.
  std::optional<RatePoint> part_of_step(std::size_t index, std::int64_t bytes) const;

 private:
  HeldBytes held_;
  std::vector<RatePoint> points_;
};

}  // namespace triaccel
