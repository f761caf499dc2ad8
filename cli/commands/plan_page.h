#pragma once

#include <string>
#include <vector>

#include "triaccel/policies/memory/memory_plan.h"

namespace triaccel::cli {

/// Of a plan: memory, speed and the options that make it so.
struct PlanPoint {
  MemoryPlan plan = {};
  std::string options = {};
};

/// An HTML page with the speed that each budget allows, from the smallest on, as a plot and as a
/// table. `facts`: the run that was planned.
std::string plan_page(const std::vector<PlanPoint>& sweep, const std::string& facts);

}  // namespace triaccel::cli
