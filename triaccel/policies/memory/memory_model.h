#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Linear estimate of memory for other pass sizes, anchored at the current size.
struct MemoryLine {
  std::int64_t pass = 0;
  double bytes = 0;      // measured there
  double slope = 0;      // fitted bytes per sample
  double steepest = 0;   // upper bound of the slope
  bool guessed = false;  // only one size measured: attributes all but the fixed bytes to the batch
};

/// M(B) = a + b B for one mix of precisions: least squares over the last few sizes, through the
/// current one. Fits one point per size, not per tick, so that a steady batch does not outweigh
/// other sizes.
class MemoryModel {
 public:
  /// Adds a measurement: peak `bytes` at `pass` samples per pass. Increases take effect at once,
  /// decreases slowly; a sudden large change of a size indicates a change of the fixed bytes and
  /// shifts all sizes.
  void add(std::int64_t pass, double bytes, std::int64_t tick);

  /// `fixed_bytes` do not depend on the batch (weights, optimizer, data); `noise` is the relative
  /// measurement error, which limits the influence of nearby sizes.
  MemoryLine line_at(std::int64_t pass, double fixed_bytes, double noise) const;

  /// The smallest size above `pass` that took more than `bytes` when last measured, since
  /// `since_tick`; 0: none. Takes precedence over the fit, since memory need not be linear.
  std::int64_t too_large_above(std::int64_t pass, double bytes, std::int64_t since_tick) const;

  /// Marks a size that ran out of memory. It is not retried until `retry_ticks` have passed
  /// (doubled with each failure), the limit has risen, or the size has run successfully.
  void forbid(std::int64_t pass, std::int64_t tick, std::int64_t retry_ticks);

  /// Called once per tick with the limit and the memory available to the batch.
  void forgive(double limit, double room, std::int64_t tick);

  /// The size that does not fit; 0: none known.
  std::int64_t forbidden() const { return forbidden_; }

  /// Whether any size ever failed under a limit like the current one.
  bool ever_failed() const { return wait_ > 0; }

  static constexpr std::int64_t kIntegers = 15;
  static constexpr std::int64_t kReals = 9;
  void write(std::vector<std::int64_t>& integers, std::vector<double>& reals) const;
  void read(const std::int64_t* integers, const double* reals);

 private:
  struct Point {
    std::int64_t pass = 0;  // 0: empty
    std::int64_t tick = 0;  // of the last measurement
    std::int64_t count = 0;
    double mean = 0;
    double newest = 0;
  };

  const Point* point_at(std::int64_t pass) const;

  std::array<Point, 4> points_ = {};
  std::int64_t forbidden_ = 0;
  std::int64_t forbidden_until_ = 0;  // tick
  std::int64_t wait_ = 0;             // ticks of the last retry delay
  double forbidden_limit_ = 0;        // bytes; 0: that of the current interval
};

/// Bytes that do not depend on the batch size, as counted: the intercept of a fitted line would be
/// too inaccurate. Without gradients, which are allocated within a step mostly after the
/// activations are freed.
double fixed_bytes(const MemoryReport& memory);

/// Target range for the peak memory of a step under the robust policies, in bytes. The fractions in
/// the options refer to the memory available to the batch: the limit minus fixed bytes. Where the
/// measurement noise, proportional to all bytes, exceeds them, it determines the range instead.
struct MemoryBand {
  double room = 0;          // limit minus fixed bytes
  double apart = 0;         // maximum difference of two measurements of the same bytes
  double grow_to = 0;       // upper bound for growth
  double shrink_above = 0;  // shrink above; below, another measurement stays within the limit
  double steady_gap = 0;    // extra margin for changing a steady size
};

/// `limit_bytes` > 0. Unknown fixed bytes count as part of the batch.
MemoryBand memory_band(double limit_bytes, double fixed_bytes, const BatchOptions& options);

}  // namespace triaccel
