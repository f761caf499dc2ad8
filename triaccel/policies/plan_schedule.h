#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/core/step_plan.h"

namespace triaccel {

/// Plans fixed in advance, in place of a controller: a recorded run is replayed with it.
class PlanSchedule {
 public:
  /// Throws UsageError unless there is a plan, their steps rise and their sizes can run.
  explicit PlanSchedule(std::vector<ScheduledPlan> plans);

  /// The plan that holds once `step` steps are done: `current` before the first, the last one for
  /// ever. Throws UsageError when it was recorded from a network with other layers.
  const StepPlan& plan_after(std::int64_t step, const StepPlan& current) const;

 private:
  std::vector<ScheduledPlan> plans_;
};

}  // namespace triaccel
