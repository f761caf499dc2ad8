#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/policies/compression/compression_options.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {

/// One plan for a tensor and its cost.
struct RatePoint {
  SavedPlan plan = {};
  std::int64_t bytes = 0;
  double error = 0;  // relative; increased by the hysteresis for a codec not yet in use
};

/// Parameters of a tensor's curve besides its statistics.
struct RateQuestion {
  double drop_price = kDropPrice;
  int least_bits = 1;       // minimum mean width
  SavedPlan previous = {};  // its codec, if it quantizes, is in use
};

/// The rate-distortion curve of one tensor, from the fewest bytes to zero error: convex, so each
/// step gains less per byte than the one before. Never empty.
///
/// Codecs by kind: non-zeros or groups for ReLU outputs; groups or a measured transform of 8, 7 or
/// 4 for others; small maps and rows before a norm use levelled groups. The error of a codec not in
/// use is divided by 1 - hysteresis; without a previous plan the plain codec (non-zeros, groups)
/// counts as in use.
class RateCurve {
 public:
  RateCurve(const SavedStatistics& tensor, std::int64_t samples, const RateQuestion& question,
            const CodecOptions& options);

  const std::vector<RatePoint>& points() const { return points_; }

  /// The furthest partial step from point `index` towards the next that takes at most `bytes`.
  /// Nothing if the step cannot be split or not even an eighth of a bit fits.
  std::optional<RatePoint> part_of_step(std::size_t index, std::int64_t bytes) const;

 private:
  HeldBytes held_;
  std::vector<RatePoint> points_;
};

}  // namespace triaccel
