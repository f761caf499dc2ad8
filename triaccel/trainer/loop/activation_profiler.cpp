#include "triaccel/trainer/loop/activation_profiler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/compression/predicted_codec.h"
#include "triaccel/ops/tensors/tensor_state.h"
#include "triaccel/saved/saved_measurement.h"
#include "triaccel/trainer/loop/control_setup.h"

namespace triaccel {
namespace {

constexpr std::array<std::int64_t, 4> kSampleCounts = {kProfileSamples, 7, 5, 3};

/// The fastest of some runs, without the first.
double seconds_of(const std::function<void()>& work, c10::Device device) {
  constexpr int runs = 3;
  work();
  double least = INFINITY;
  for (int i = 0; i < runs; ++i) {
    synchronize(device);
    const Stopwatch watch;
    work();
    synchronize(device);
    least = std::min(least, watch.seconds());
  }
  return least;
}

double seconds_saved(const at::Tensor& values, const SavedPlan& plan) {
  const FrequencyCoding coding{.block = plan.block, .band_eighths = plan.band_eighths};
  const at::IntArrayRef sizes = values.sizes(), strides = values.strides();
  const at::ScalarType type = values.scalar_type();
  const double plain = seconds_of(
      [&] { decode_frequency(encode_frequency(values, coding), sizes, strides, type, coding); },
      values.device());
  const double predicted = seconds_of(
      [&] {
        decode_predicted(encode_predicted(values, coding, plan.predicted), sizes, strides, type,
                         coding, plan.predicted);
      },
      values.device());
  return plain - predicted;
}

/// Seconds that predicting blocks saves in a pass of so many samples, measured on waves with the
/// sizes and plans of the tensors that are predicted; negative: it takes that much longer. NaN
/// where memory does not suffice. Waits for the device.
double seconds_saved_by_prediction(std::span<const SavedStatistics> tensors,
                                   std::span<const SavedPlan> plans, std::int64_t samples,
                                   c10::Device device) {
  double sum = 0;
  try {
    catching_out_of_memory([&] {
      for (std::size_t i = 0; i < plans.size(); ++i) {
        if (plans[i].predicted == 0) continue;
        const at::Tensor wave =
            at::arange(tensors[i].elements(samples), at::TensorOptions(at::kFloat).device(device))
                .sin_()
                .view(tensors[i].sizes_for(samples));
        sum += seconds_saved(wave.to(scalar_type_of(tensors[i].type)), plans[i]);
      }
    });
  } catch (const OutOfMemory&) {
    return std::nan("");
  }
  return sum;
}

}  // namespace

SavedStoreOptions saved_store_options(const RunConfig& config) {
  const ActivationRounding rounding = config.activations.rounding;
  const auto registered = find_registered_codec(config.activations.keep.name());
  return {.seed = static_cast<std::uint64_t>(config.train.seed),
          .rounding = rounding == ActivationRounding::Dither       ? kernels::Rounding::Dither
                      : rounding == ActivationRounding::Stochastic ? kernels::Rounding::Stochastic
                                                                   : kernels::Rounding::Nearest,
          .share = !registered || registered_codec(*registered).shares()};
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
    if (request.kind == ProfileKind::BlockPrediction)
      found.blocks = block_tests(request, plan, *batch(samples_));
    else if (request.kind == ProfileKind::Noise)
      found.noise = runner_.compression_noise(plan, *batch(samples_));
  } catch (const OutOfMemory& error) {
    gauge_.release_cache();
    found.failure = error.what();
  }
  if (request.kind == ProfileKind::PredictionTime) {
    found.prediction_seconds =
        seconds_saved_by_prediction(tensors_, request.plans, plan.micro_batch_size, device_);
    gauge_.release_cache();
  }
  return found;
}

ActivationProfile ActivationProfiler::values(const ProfileRequest& request, const StepPlan& plan,
                                             const ProfiledBatch& batch, std::int64_t samples) {
  for (const std::int64_t most : kSampleCounts) {
    const std::int64_t count = std::min(most, samples);
    try {
      const std::unique_ptr<StepBatch> some = batch(count);
      const auto found = runner_.take_census(plan, *some);
      std::vector<SavedStatistics> tensors = tensors_of(runner_.census());
      measure_saved(tensors, found);
      if (request.error_gains)
        measure_gains(tensors, runner_.census(), runner_.error_gains(plan, *some));
      samples_ = count;
      tensors_ = std::move(tensors);
      break;
    } catch (const OutOfMemory&) {
      gauge_.release_cache();
      if (most == kSampleCounts.back()) throw;
    }
  }
  return {.census = runner_.census(), .tensors = tensors_};
}

std::vector<BlockTest> ActivationProfiler::block_tests(const ProfileRequest& request,
                                                       const StepPlan& plan,
                                                       StepBatch& batch) const {
  std::vector<std::int64_t> entries;
  for (const std::size_t i : request.tensors) entries.push_back(tensors_[i].entry);
  std::vector<BlockTest> tests(entries.size());
  for (const SavedSample& sample : runner_.channel_samples(plan, batch, entries))
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i] == sample.entry) {
        const SavedPlan& kept = request.plans[request.tensors[i]];
        tests[i] = block_test(measure_prediction(sample, kept), plain_block_bits(kept));
      }
  return tests;
}

void plan_activations(ActivationPolicy& policy, RunParts& parts, const at::Tensor& ids,
                      StepPlan& plan, PolicyEvents& events) {
  ActivationProfiler profiler(*parts.runner, parts.on.gauge, parts.on.device);
  const ProfiledBatch batch = profiled_samples(parts, ids);
  std::optional<ProfileRequest> request = policy.start_profile(/*restored=*/false);
  while (request)
    request = policy.take(profiler.measure(*request, plan, batch, ids.numel()), plan, events);
}

void plan_activations(const RunConfig& config, RunParts& parts, const at::Tensor& ids) {
  ActivationPolicy policy(activation_options(config));
  PolicyEvents events;
  plan_activations(policy, parts, ids, parts.plan, events);
}

}  // namespace triaccel
