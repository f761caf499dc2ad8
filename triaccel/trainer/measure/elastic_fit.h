#pragma once

#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

/// Sets the boundary and the passes of the first plan to what the budget holds, seen by rehearsing
/// steps under it. Leaves weights and generators as they were.
void fit_boundary(RunParts& parts, const RunConfig& config);

}  // namespace triaccel
