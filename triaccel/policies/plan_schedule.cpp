#include "triaccel/policies/plan_schedule.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {

PlanSchedule::PlanSchedule(std::vector<ScheduledPlan> plans) : plans_(std::move(plans)) {
  constexpr std::string_view who = "--replay";
  require(!plans_.empty(), who, "the file holds no plan");
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const StepPlan& plan = plans_[i].plan;
    require(i == 0 || plans_[i].step > plans_[i - 1].step, who, "plan ", i,
            " must start after step ", i == 0 ? 0 : plans_[i - 1].step, ", got ", plans_[i].step);
    require(plan.micro_batch_size >= 1 && plan.micro_batch_size <= plan.batch_size, who, "plan ", i,
            ": micro_batch_size must lie in [1, batch_size ", plan.batch_size, "], got ",
            plan.micro_batch_size);
  }
}

const StepPlan& PlanSchedule::plan_after(std::int64_t step, const StepPlan& current) const {
  const auto after = std::upper_bound(
      plans_.begin(), plans_.end(), step,
      [](std::int64_t wanted, const ScheduledPlan& plan) { return wanted < plan.step; });
  if (after == plans_.begin()) return current;
  const StepPlan& plan = std::prev(after)->plan;
  require(plan.layers.size() == current.layers.size(), "--replay", "the plan for step ", step,
          " has ", plan.layers.size(), " layers, but the model has ", current.layers.size(),
          "; replay it with the model it was recorded from");
  return plan;
}

}  // namespace triaccel
