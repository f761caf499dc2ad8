#pragma once

#include <cstdint>

#include "triaccel/core/step_plan.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Forward passes in a step, and the most samples one of them holds: they are of equal size, give
/// or take one.
std::int64_t passes_per_step(const StepPlan& plan);
std::int64_t samples_per_pass(const StepPlan& plan);

/// The sizes a forward pass may take, few enough for captured graphs to be met again.
///   elastic  multiples of the bucket, powers of two below it, and the bounds themselves
///   micro    the batch cut into 1, 2, 3, … equal passes
class PassSizes {
 public:
  PassSizes(const BatchOptions& options, const StepPlan& start);

  std::int64_t smallest() const { return smallest_; }
  std::int64_t largest() const { return largest_; }
  std::int64_t passes() const { return passes_; }  // in a step of the first plan
  std::int64_t smallest_batch() const { return smallest_batch_; }
  std::int64_t largest_batch() const { return largest_batch_; }

  /// The largest size that is not above `size`; the smallest one when there is none.
  std::int64_t at_most(double size) const;
  /// The neighbours on the grid; the ends are their own.
  std::int64_t above(std::int64_t size) const;
  std::int64_t below(std::int64_t size) const;

  /// The plan with passes of that size: the elastic batch keeps the first plan's number of passes
  /// as far as its bounds allow.
  void set(StepPlan& plan, std::int64_t pass) const;

 private:
  std::int64_t snapped(std::int64_t size) const;

  BatchMode mode_;
  std::int64_t bucket_;
  std::int64_t batch_;   // of the first plan
  std::int64_t passes_;  // of the first plan, in a step
  std::int64_t smallest_batch_;
  std::int64_t largest_batch_;
  std::int64_t smallest_;  // pass
  std::int64_t largest_;   // pass
};

}  // namespace triaccel
