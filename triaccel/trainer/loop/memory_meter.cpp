#include "triaccel/trainer/loop/memory_meter.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/divide_up.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/control_setup.h"
#include "triaccel/trainer/loop/curvature_meter.h"
#include "triaccel/trainer/loop/memory_census.h"

namespace triaccel {

ActivationFormat format_of(const ActivationMode& mode) {
  if (mode == "raw") return ActivationFormat::Raw;
  if (mode == "offloaded") return ActivationFormat::Offloaded;
  return mode.saves_exactly() ? ActivationFormat::Lossless : ActivationFormat::Compressed;
}

std::vector<MemoryVariant> variants_of(const RunConfig& config, const RunParts& parts,
                                       bool capture) {
  const bool on_gpu = parts.on.device.is_cuda();
  std::vector<MemoryVariant> variants;
  const RunConfig::Activations& asked = config.activations;
  if (asked.keep != "raw" || asked.recompute_norms || asked.recompute_segments > 0) {
    variants.push_back({.activations = format_of(asked.keep),
                        .recompute_norms = asked.recompute_norms,
                        .recompute_segments = asked.recompute_segments});
  } else {
    variants.push_back({});
    if (parts.method.per_layer && on_gpu) variants.push_back({.recompute_norms = true});
    variants.push_back({.activations = ActivationFormat::Lossless});
    if (parts.method.per_layer) variants.push_back({.recompute_segments = 1});
    // A CPU's host memory is that of the budget.
    if (on_gpu) variants.push_back({.activations = ActivationFormat::Offloaded});
    if (config.device.lossy == LossyMeans::Auto)
      variants.push_back({.activations = ActivationFormat::Compressed});
  }
  const bool casts =
      on_gpu && parts.method.per_layer && config.control.weight_casts == WeightCasts::Step;
  std::vector<MemoryVariant> all;
  for (MemoryVariant variant : variants) {
    // Rounding weights layer by layer takes less time than recomputing, moving or compressing
    // activations.
    const bool costs_more = variant.recompute_segments > 0 ||
                            variant.activations == ActivationFormat::Offloaded ||
                            variant.activations == ActivationFormat::Compressed;
    if (!casts || !costs_more || variants.size() == 1) all.push_back(variant);
    variant.casts_by_layer = casts;
    if (casts) all.push_back(variant);
    variant.eager = capture;  // where memory is short both help
    if (capture) all.push_back(variant);
  }
  return all;
}

MemoryVariant variant_of(const MemoryPlan& plan) {
  return {.activations = plan.pass.activations,
          .offload_share = plan.pass.offload_share,
          .recompute_norms = plan.pass.recompute_norms,
          .recompute_segments = plan.pass.recompute_segments,
          .eager = plan.pass.eager,
          .casts_by_layer = plan.pass.casts_by_layer};
}

RunConfig with_variant(RunConfig config, const MemoryVariant& variant) {
  if (variant.casts_by_layer) config.control.weight_casts = WeightCasts::Layer;
  if (variant.eager) config.device.graphs = GraphCapture::Off;
  if (config.activations.keep != "raw") return config;  // not open
  config.activations.keep = name_of(variant.activations);
  config.activations.offload_share = variant.offload_share;
  config.activations.recompute_norms |= variant.recompute_norms;
  if (config.activations.recompute_segments == 0)
    config.activations.recompute_segments = variant.recompute_segments;
  return config;
}

template <typename Measure>
auto MemoryMeter::fitting(const Measure& measure) -> std::optional<decltype(measure())> {
  try {
    return catching_out_of_memory(measure);
  } catch (const OutOfMemory&) {
    release();
    return {};
  }
}

MemoryMeter::MemoryMeter(const RunConfig& config, RunParts& parts)
    : config_(config),
      parts_(parts),
      sampler_(parts.data.training_ids, static_cast<std::uint64_t>(config.train.seed)),
      order_(parts.on.device, parts.data.train.get()),
      plan_(parts.plan) {
  parts.network.module->train();
}

std::optional<double> MemoryMeter::use(const MemoryVariant& variant, StateFormat state) {
  RunConfig config = with_variant(config_, variant);
  config.train.optimizer_state = state;
  parts_.plan = plan_;
  return fitting([&] {
    parts_.make_runner(config);
    if (parts_.runner->saved() == nullptr) return 0.0;
    parts_.on.gauge.release_cache();
    parts_.on.gauge.reset_peak();
    plan_activations(config, parts_, order_.upcoming(sampler_, kProfileSamples));
    return static_cast<double>(parts_.on.gauge.counted_peak());
  });
}

std::optional<PassSample> MemoryMeter::step(std::int64_t pass, std::int64_t samples) {
  const StepPlan plan = plan_of(pass, samples);
  return fitting([&] {
    const at::Tensor ids = order_.upcoming(sampler_, plan.batch_size);
    // The first one sets libraries up.
    if (parts_.on.device.is_cuda() || !parts_.runner->knows_segments()) rehearse(plan, ids);
    std::optional<double> replay;
    if (parts_.runner->graphs() != nullptr)
      replay = parts_.runner->replay_seconds(plan, *parts_.data.train, ids, gather());
    release();
    parts_.on.gauge.reset_peak();
    const Stopwatch watch;
    rehearse(plan, ids);
    const double seconds =
        replay.value_or(watch.seconds()) / static_cast<double>(divide_up(samples, pass));
    const MemoryReport memory = parts_.on.gauge.read();
    return PassSample{.samples = pass,
                      .bytes = static_cast<double>(memory.peak),
                      .overhead = static_cast<double>(memory.reserved - memory.peak),
                      .seconds = seconds};
  });
}

std::optional<std::int64_t> MemoryMeter::measurements(const MemoryVariant& variant,
                                                      std::int64_t pass, std::int64_t samples) {
  const RunConfig config = with_variant(config_, variant);
  const bool probes = probes_curvature(config, parts_);
  const bool profiles = parts_.runner->saved() != nullptr;
  const bool profiles_again = profiles && !config.activations.keep.saves_exactly();
  if (!probes && !profiles) return 0;
  const std::int64_t limit = parts_.on.gauge.read().limit;  // they may fill the whole budget
  const ScopedLimit whole(parts_.on.gauge, limit > 0 ? budget_for(limit) : 0);
  return fitting([&] {
    CurvatureOptions options = curvature_options(config);
    options.most_iterations = 1;  // more take time, but no memory
    CurvatureMeter curvature(config, parts_, options);
    const auto ids = [&] { return order_.upcoming(sampler_, curvature.batch()); };
    for (int probe = 0; probes && probe < 2; ++probe) curvature.probe(ids, /*step=*/0);
    if (probes) curvature.take();
    const auto profile = [&] {
      plan_activations(config, parts_, order_.upcoming(sampler_, kProfileSamples));
      return true;
    };
    if (profiles && parts_.runner->graphs() != nullptr) {
      if (profiles_again) fitting(profile);  // while steps are captured a run can do without
      release();
    }
    if (profiles) profile();                   // but not without the first one
    if (parts_.runner->graphs() == nullptr) {  // captured steps keep their memory
      release();
      const StepPlan plan = plan_of(pass, samples);
      rehearse(plan, order_.upcoming(sampler_, plan.batch_size));
    }
    return parts_.on.gauge.counted_peak();
  });
}

StepPlan MemoryMeter::plan_of(std::int64_t pass, std::int64_t samples) const {
  StepPlan plan = parts_.plan;
  plan.batch_size = std::min(samples, std::ssize(parts_.data.training_ids));
  plan.micro_batch_size = pass;
  return plan;
}

/// What steps before this one have left, in the memory of captured ones too.
void MemoryMeter::release() {
  if (parts_.runner && parts_.runner->graphs() != nullptr) parts_.runner->graphs()->clear();
  parts_.on.gauge.release_cache();
}

void MemoryMeter::rehearse(const StepPlan& plan, const at::Tensor& ids) {
  parts_.runner->rehearse(plan, *parts_.data.train, ids, gather());
  synchronize(parts_.on.device);
}

GatherOptions MemoryMeter::gather() const {
  return {.augment = augments(config_),
          .epoch = sampler_.epoch(),
          .seed = static_cast<std::uint64_t>(config_.train.seed)};
}

}  // namespace triaccel
