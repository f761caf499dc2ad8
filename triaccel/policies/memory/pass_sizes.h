#pragma once

#include <cstdint>

#include "triaccel/core/step_plan.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Number of forward passes per step and the samples of the largest; sizes differ by at most one.
std::int64_t passes_per_step(const StepPlan& plan);
std::int64_t samples_per_pass(const StepPlan& plan);

/// The allowed sizes of a forward pass: few, so that captured graphs can be reused.
///   elastic  multiples of the bucket, powers of two below it, and the bounds themselves
///   micro    the batch split into 1, 2, 3, … equal passes
class PassSizes {
 public:
  PassSizes(const BatchOptions& options, const StepPlan& start);

  std::int64_t smallest() const { return smallest_; }
  std::int64_t largest() const { return largest_; }
  std::int64_t passes() const { return passes_; }  // per step of the first plan
  std::int64_t smallest_batch() const { return smallest_batch_; }
  std::int64_t largest_batch() const { return largest_batch_; }

  /// The largest size <= `size`, or the smallest size.
  std::int64_t at_most(double size) const;
  /// The neighbouring sizes, clamped at the ends.
  std::int64_t above(std::int64_t size) const;
  std::int64_t below(std::int64_t size) const;

  /// Sets the pass size in the plan; an elastic batch keeps the first plan's number of passes as
  /// far as its bounds allow.
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
