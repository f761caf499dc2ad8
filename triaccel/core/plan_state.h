#pragma once

#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"

namespace triaccel {

/// A plan as a checkpoint keeps it.
std::vector<StateView> plan_state(const StepPlan& plan);

/// Whether a checkpoint keeps a plan.
bool holds_plan(const StateMap& saved);

/// Reads what plan_state wrote; StorageError unless it is a plan of `layer_count` layers. A
/// checkpoint from before tensors had codecs gives a plan without any.
StepPlan plan_from(const StateMap& saved, std::int64_t layer_count);

}  // namespace triaccel
