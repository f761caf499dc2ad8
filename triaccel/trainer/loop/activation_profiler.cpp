#include "triaccel/trainer/loop/activation_profiler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "triaccel/core/codec_registry.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/saved/saved_measurement.h"
#include "triaccel/trainer/loop/control_setup.h"

namespace triaccel {

SavedStoreOptions saved_store_options(const RunConfig& config) {
  const ActivationRounding rounding = config.activations.rounding;
  const auto registered = find_registered_codec(config.activations.keep.name());
  return {.seed = static_cast<std::uint64_t>(config.train.seed),
          .rounding = rounding == ActivationRounding::Dither       ? kernels::Rounding::Dither
                      : rounding == ActivationRounding::Stochastic ? kernels::Rounding::Stochastic
                                                                   : kernels::Rounding::Nearest,
          .share = !registered || registered_codec(*registered).shares(),
          .exact = config.activations.keep == "offloaded"};
}

SavedPlan registered_plan(const std::string& name) {
  const auto number = find_registered_codec(name);
  if (!number) return {};
  return {.codec = SavedCodec::Registered, .registered = *number};
}

ProfiledBatch profiled_samples(const RunParts& parts, const at::Tensor& ids) {
  return [&parts, ids](std::int64_t count) {
    return std::make_unique<DatasetBatch>(
        parts.runner->samples_of(*parts.data.train, ids.narrow(0, 0, count)));
  };
}

ActivationProfile ActivationProfiler::measure(const ProfileRequest& request, const StepPlan& plan,
                                              const ProfiledBatch& batch, std::int64_t samples) {
  if (request.kind == ProfileKind::Values) return values(request, plan, batch, samples);
  ActivationProfile found{.kind = request.kind};
  try {
    const std::unique_ptr<StepBatch> some = batch(samples_);
    if (request.kind == ProfileKind::Noise)
      found.noise = runner_.compression_noise(plan, *some);
    else
      found.errors = runner_.gradient_errors(plan, request.plans, *some);
  } catch (const OutOfMemory& error) {
    gauge_.release_cache();
    found.failure = error.what();
  }
  return found;
}

ActivationProfile ActivationProfiler::values(const ProfileRequest& request, const StepPlan& plan,
                                             const ProfiledBatch& batch, std::int64_t samples) {
  std::vector<SavedStatistics> tensors;
  for (const std::int64_t size : kProfileSizes) {
    if (size > request.samples) continue;
    const std::int64_t count = std::min(size, samples);
    try {
      const std::unique_ptr<StepBatch> some = batch(count);
      const auto found = runner_.take_census(plan, *some);
      tensors = tensors_of(runner_.census());
      measure_saved(tensors, found);
      if (request.error_gains)
        measure_gains(tensors, runner_.census(), runner_.error_gains(plan, *some));
      samples_ = count;
      break;
    } catch (const OutOfMemory&) {
      gauge_.release_cache();
      if (size == kProfileSizes.back()) throw;
    }
  }
  return {.census = runner_.census(), .tensors = std::move(tensors)};
}

void plan_activations(ActivationPolicy& policy, RunParts& parts, const at::Tensor& ids,
                      StepPlan& plan, PolicyEvents& events) {
  ActivationProfiler profiler(*parts.runner, parts.on.gauge);
  const ProfiledBatch batch = profiled_samples(parts, ids);
  std::optional<ProfileRequest> request =
      policy.start_profile(/*step=*/0, plan, /*restored=*/false);
  while (request)
    request = policy.take(profiler.measure(*request, plan, batch, ids.numel()), plan, events);
}

void plan_activations(const RunConfig& config, RunParts& parts, const at::Tensor& ids) {
  ActivationPolicy policy(activation_options(config));
  PolicyEvents events;
  plan_activations(policy, parts, ids, parts.plan, events);
}

}  // namespace triaccel
