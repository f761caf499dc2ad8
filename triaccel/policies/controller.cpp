#include "triaccel/policies/controller.h"

#include <algorithm>

namespace triaccel {

StepPlan next_plan(const StepReport&, const StepPlan& current) { return current; }

std::optional<StepPlan> smaller_plan(const StepPlan& current, std::int64_t smallest_pass) {
  if (current.micro_batch_size <= smallest_pass) return std::nullopt;
  StepPlan smaller = current;
  smaller.micro_batch_size = std::max((current.micro_batch_size + 1) / 2, smallest_pass);
  return smaller;
}

}  // namespace triaccel
