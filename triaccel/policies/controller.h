#pragma once

#include <cstdint>
#include <optional>

#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"

namespace triaccel {

/// The plan for the next control interval: all policies, in their fixed order. For the methods
/// whose plan never changes (fp32, amp) there is one policy, and it keeps the plan.
StepPlan next_plan(const StepReport& report, const StepPlan& current);

/// The answer to an out-of-memory: the same optimizer step in forward passes of half the size, so
/// that the samples of a step and its learning rate stay what they were. Empty when passes of
/// `smallest_pass` samples did not fit.
std::optional<StepPlan> smaller_plan(const StepPlan& current, std::int64_t smallest_pass = 1);

}  // namespace triaccel
