#pragma once

#include <cstdint>

#include "triaccel/policies/memory/memory_plan.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// What plans for the memory of a run are made from.
struct MemoryCensus {
  MemoryCosts costs = {};
  MemoryRequest request = {};
};

/// Measures the memory and the time of a few small steps, which are undone, with every way to keep
/// activations that the configuration leaves open (it leaves open what it has at its default). Its
/// budget is not applied. The method must train by backpropagation.
MemoryCensus take_memory_census(const RunConfig& config);

/// The configuration with the choices of a plan.
RunConfig with_memory_plan(RunConfig config, const MemoryPlan& plan);

}  // namespace triaccel
