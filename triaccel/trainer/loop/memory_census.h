#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/policies/memory/memory_plan.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

/// What plans for the memory of a run are made from.
struct MemoryCensus {
  MemoryCosts costs = {};
  MemoryRequest request = {};
  bool complete = true;  // false: what looked worse than the best was not measured
};

/// What plans may fill of a budget, and the budget for a plan: evaluation and other shapes of
/// batches need room, too.
inline std::int64_t planned_share(std::int64_t budget_bytes) {
  return budget_bytes - budget_bytes / 32;
}
inline std::int64_t budget_for(std::int64_t planned_bytes) {
  return planned_bytes + planned_bytes / 31 + 1;
}

/// The configuration of a run whose memory is to be planned by hand.
RunConfig without_budget(const RunConfig& config);

/// Measures the memory and the time of a few small steps, which are undone, in every way to need
/// less memory that the configuration leaves open (it leaves open what it has at its default). The
/// method must train by backpropagation. The runner is then one for other means than the run's.
MemoryCensus take_memory_census(RunParts& parts);

/// The same within a run's budget: ways of which not even the smallest step fits are left out. Its
/// data stay where they are. `most`: samples of the largest pass to measure; what cannot be the
/// best in `budget_bytes` (0: any) is not measured.
MemoryCensus take_memory_census(RunParts& parts, std::int64_t most, std::int64_t budget_bytes);

/// The plan with the bytes that its own steps take, measured; nothing where they do not fit. With
/// `profile`, those of profiling activations as well; within a budget, those that measurements
/// between steps take are told apart. The runner is then the plan's.
std::optional<MemoryPlan> measured_plan(RunParts& parts, MemoryPlan plan, bool profile);

/// The best of the plans that needs no more than `allowed_bytes` when it is measured.
std::optional<MemoryPlan> best_plan(RunParts& parts, const std::vector<MemoryPlan>& plans,
                                    std::int64_t allowed_bytes, bool profile);

/// The plan that needs least memory, with the least budget that its steps were seen to fit in;
/// nothing where the device is too small. The budget is lifted meanwhile, and the runner is then
/// another one.
std::optional<MemoryPlan> least_plan(RunParts& parts, const MemoryCensus& census);

/// The configuration with the choices of a plan, without those of passes and data.
RunConfig with_memory_means(RunConfig config, const MemoryPlan& plan);

}  // namespace triaccel
