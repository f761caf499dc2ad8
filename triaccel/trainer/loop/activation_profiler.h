#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "triaccel/policies/compression/activation_policy.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

SavedStoreOptions saved_store_options(const RunConfig& config);

/// The plan of a codec that the program registered under `name`; Raw if there is none.
SavedPlan registered_plan(const std::string& name);

/// The first `count` samples to profile, as a batch.
using ProfiledBatch = std::function<std::unique_ptr<StepBatch>(std::int64_t count)>;

/// Measures the activations that a network saves for backward, and leaves everything as it was.
class ActivationProfiler {
 public:
  ActivationProfiler(StepRunner& runner, MemoryGauge& gauge) : runner_(runner), gauge_(gauge) {}

  /// On `samples` of a batch, or fewer where asked to or where memory is short. Values come first;
  /// throws OutOfMemory where not even the fewest samples suffice for them.
  ActivationProfile measure(const ProfileRequest& request, const StepPlan& plan,
                            const ProfiledBatch& batch, std::int64_t samples);

 private:
  ActivationProfile values(const ProfileRequest& request, const StepPlan& plan,
                           const ProfiledBatch& batch, std::int64_t samples);

  StepRunner& runner_;
  MemoryGauge& gauge_;
  std::int64_t samples_ = 0;  // that the values were measured on
};

/// The samples `ids` of a run's training set, to profile.
ProfiledBatch profiled_samples(const RunParts& parts, const at::Tensor& ids);

/// Plans how a run's activations are kept, from the samples `ids`, without a training loop.
void plan_activations(ActivationPolicy& policy, RunParts& parts, const at::Tensor& ids,
                      StepPlan& plan, PolicyEvents& events);

/// Its first plan becomes one for the configuration's activations.
void plan_activations(const RunConfig& config, RunParts& parts, const at::Tensor& ids);

}  // namespace triaccel
