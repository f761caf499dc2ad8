#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/core/step_plan.h"

namespace triaccel {

/// A fixed sequence of plans that replaces the controller, used to replay a recorded run.
class PlanSchedule {
 public:
  /// Throws UsageError unless there is a plan, steps are increasing and batch sizes valid.
  explicit PlanSchedule(std::vector<ScheduledPlan> plans);

  /// The plan in effect after `step` steps; `current` before the first. Throws UsageError if it was
  /// recorded from a model with other layers.
  const StepPlan& plan_after(std::int64_t step, const StepPlan& current) const;

 private:
  std::vector<ScheduledPlan> plans_;
};

}  // namespace triaccel
