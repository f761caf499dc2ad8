#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/policies/compression/activation_policy.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

SavedStoreOptions saved_store_options(const RunConfig& config);

/// The plan of a codec that the program registered under `name`; Raw if there is none.
SavedPlan registered_plan(const std::string& name);

/// Measures the activations that a run's network saves for backward, and leaves the run as it was.
class ActivationProfiler {
 public:
  explicit ActivationProfiler(RunParts& parts) : parts_(parts) {}

  /// On the samples `ids`, or fewer where memory is short. Values come first; throws OutOfMemory
  /// where not even the fewest samples suffice for them.
  ActivationProfile measure(const ProfileRequest& request, const StepPlan& plan,
                            const at::Tensor& ids);

 private:
  ActivationProfile values(const ProfileRequest& request, const StepPlan& plan,
                           const at::Tensor& ids);
  std::vector<BlockTest> block_tests(const ProfileRequest& request, const StepPlan& plan) const;

  RunParts& parts_;
  at::Tensor ids_;                        // that the values were measured on
  std::vector<SavedStatistics> tensors_;  // likewise
};

/// Plans how a run's activations are kept, from the samples `ids`, without a training loop.
void plan_activations(ActivationPolicy& policy, RunParts& parts, const at::Tensor& ids,
                      StepPlan& plan, PolicyEvents& events);

/// Its first plan becomes one for the configuration's activations.
void plan_activations(const RunConfig& config, RunParts& parts, const at::Tensor& ids);

}  // namespace triaccel
