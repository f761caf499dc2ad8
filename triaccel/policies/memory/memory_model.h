#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"

namespace triaccel {

/// What a forward pass of another size would take, seen from the size that runs.
struct MemoryLine {
  std::int64_t pass = 0;
  double bytes = 0;      // measured there
  double slope = 0;      // bytes a sample, fitted
  double steepest = 0;   // the most it can be, as far as is known
  bool guessed = false;  // no second size has been seen: all but the fixed bytes is the batch's
};

/// M(B) = a + b B for one mix of precisions: least squares over the last few sizes, through the
/// size that runs now. Sizes, not ticks, are what the fit sees: a batch that stands still for long
/// does not wash out what other sizes taught.
class MemoryModel {
 public:
  /// A tick at `pass` samples a pass took `bytes` at its peak. Rises count at once, falls slowly;
  /// but a size that suddenly takes much more or less than before tells of bytes that do not depend
  /// on the batch, and moves what is known of all sizes.
  void add(std::int64_t pass, double bytes, std::int64_t tick);

  /// `fixed_bytes` are known not to depend on the batch (weights, optimizer, data); `noise` is the
  /// relative error of one measurement, which decides how far two close sizes are believed.
  MemoryLine line_at(std::int64_t pass, double fixed_bytes, double noise) const;

  /// The smallest size above `pass` that took more than `bytes` when last measured, in `since_tick`
  /// or later; 0: none. Memory need not rise along a line, and what was measured beats a fit.
  std::int64_t too_large_above(std::int64_t pass, double bytes, std::int64_t since_tick) const;

  /// Out of memory at this size. Until `retry_ticks` have gone by (twice as many each time it fails
  /// again), or the limit has risen, or the size has run after all, it is not tried again.
  void forbid(std::int64_t pass, std::int64_t tick, std::int64_t retry_ticks);

  /// Once a tick, with the limit of its interval and what of it a batch can use.
  void forgive(double limit, double room, std::int64_t tick);

  /// The size that does not fit; 0: none known.
  std::int64_t forbidden() const { return forbidden_; }

  /// Whether any size failed under a limit like the present one, however long ago.
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
  std::int64_t wait_ = 0;             // ticks it was forbidden for
  double forbidden_limit_ = 0;        // bytes; 0: that of the interval that has not ended yet
};

}  // namespace triaccel
