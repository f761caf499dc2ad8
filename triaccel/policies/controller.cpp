#include "triaccel/policies/controller.h"

namespace triaccel {

StepPlan next_plan(const StepReport&, const StepPlan& current) { return current; }

std::optional<StepPlan> smaller_plan(const StepPlan& current) {
  if (current.micro_batch_size <= 1) return std::nullopt;
  StepPlan smaller = current;
  smaller.micro_batch_size = (current.micro_batch_size + 1) / 2;
  return smaller;
}

}  // namespace triaccel
