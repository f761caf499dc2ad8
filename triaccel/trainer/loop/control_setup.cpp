#include "triaccel/trainer/loop/control_setup.h"

#include <torch/torch.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/telemetry/records/plan_record.h"
#include "triaccel/trainer/loop/activation_profiler.h"

namespace triaccel {
namespace {

/// "auto" leaves what the policy set has: the paper couples nothing, robust takes AdaScale's gain.
RateRule rate_rule(BatchRate wanted, RateRule of_the_set) {
  switch (wanted) {
    case BatchRate::Auto:
      return of_the_set;
    case BatchRate::None:
      return RateRule::None;
    case BatchRate::Linear:
      return RateRule::Linear;
    case BatchRate::Sqrt:
      return RateRule::Sqrt;
    case BatchRate::AdaScale:
      return RateRule::AdaScale;
  }
  return of_the_set;
}

BatchOptions batch_options(const RunConfig& config, const RunParts& parts,
                           const BatchOptions& of_the_set) {
  const RunConfig::Control& control = config.control;
  const MemoryReport memory = parts.on.gauge.read();
  const bool cuda = parts.on.device.is_cuda();
  BatchOptions options = control.batch_rules;
  options.mode = control.batch;
  // The budget is what the device's allocator takes, cached blocks included.
  options.signal = cuda ? MemorySignal::Reserved : MemorySignal::Peak;
  // What is free, and what we hold already, weights and data among it.
  options.device_bytes =
      device_free_bytes(parts.on.device) + (cuda ? memory.reserved : memory.used);
  if (options.smallest == 0) {
    options.smallest = options.mode == BatchMode::Micro ? 2 : of_the_set.smallest;
    options.smallest = std::min(options.smallest, parts.plan.batch_size);
    if (options.largest > 0) options.smallest = std::min(options.smallest, options.largest);
  }
  // A batch is never larger than an epoch.
  const std::int64_t samples = std::ssize(parts.data.training_ids);
  if ((options.largest > 0 ? options.largest : 4 * parts.plan.batch_size) > samples)
    options.largest = std::max(parts.plan.batch_size, samples);
  options.smallest_pass = smallest_pass_of(parts.network);
  options.planned_pass = parts.planned_pass;
  options.planned_limit = parts.on.budget_bytes;
  // The CPU's account is exact; a GPU's allocator counts in blocks.
  if (!cuda) options.measurement_noise = 0.002;
  options.grow_as_rate_falls = control.batch_growth == BatchGrowth::Schedule;
  options.wait_for_noise =
      options.grow_as_rate_falls && control.curvature == CurvatureSource::FisherGram;
  options.rate = rate_rule(control.batch_rate, of_the_set.rate);
  return options;
}

ControlOptions control_options(const RunConfig& config, const RunParts& parts) {
  if (!parts.method.per_layer) return no_control();
  const RunConfig::Control& control = config.control;
  ControlOptions options = default_options(control.policy);
  options.precision_on = control.precision == LayerPrecision::Auto;
  options.curvature_on = control.curvature != CurvatureSource::Off;
  PrecisionOptions& precision = options.precision = control.precision_rules;
  precision.has_bf16 = parts.formats.bf16;
  precision.has_fp16 = parts.formats.fp16;
  precision.automatic = precision.tau_high == 0;
  CurvatureRules& curvature = options.curvature = control.curvature_rules;
  if (curvature.rate_floor == 0) curvature.rate_floor = default_rate_floor(control.policy);
  if (curvature.cap == 0) curvature.cap = curvature_cap(curvature_options(config).mode);
  curvature.momentum = config.train.optimizer == OptimizerKind::Sgd ? config.train.momentum : 0;
  curvature.automatic = curvature.tau == 0;
  curvature.tau = std::max(0.0, curvature.tau);
  options.batch = batch_options(config, parts, options.batch);
  return options;
}

constexpr double kMostAutoRatio = 32;  // as --activation-ratio has it

std::vector<LayerKind> kinds_of(const Network& network) {
  std::vector<LayerKind> kinds;
  for (const LayerInfo& layer : network.layers.layers()) kinds.push_back(layer.kind);
  return kinds;
}

std::vector<bool> normalized_of(const Network& network) {
  std::vector<bool> normalized;
  for (const LayerInfo& layer : network.layers.layers()) normalized.push_back(layer.normalized);
  return normalized;
}

}  // namespace

ActivationOptions activation_options(const RunConfig& config) {
  const RunConfig::Activations& wanted = config.activations;
  ActivationOptions options{.fixed = registered_plan(wanted.keep),
                            .profile_every = wanted.profile_every};
  CompressionOptions& compression = options.compression;
  compression.mode = wanted.keep == "compressed"  ? CompressionMode::Ratio
                     : wanted.keep == "bounded"   ? CompressionMode::Error
                     : wanted.keep == "offloaded" ? CompressionMode::Offload
                                                  : CompressionMode::Lossless;
  compression.error_bound = wanted.error_bound;
  compression.offload_share = wanted.offload_share;
  compression.loop.adapt = wanted.adapt;
  compression.loop.target_ratio = wanted.first_ratio();
  if (wanted.ratio == wanted.kAutoRatio) compression.loop.most_ratio = kMostAutoRatio;
  compression.loop.least_ratio = wanted.least_ratio;
  compression.loop.guard_points = wanted.guard;
  return options;
}

CurvatureOptions curvature_options(const RunConfig& config) {
  const RunConfig::Control& control = config.control;
  CurvatureOptions options;
  options.mode = control.curvature == CurvatureSource::Hessian ? CurvatureMode::Hessian
                                                               : CurvatureMode::FisherGram;
  options.top = control.curvature_top;
  options.batch = control.curvature_batch;
  options.whole_layer = control.curvature_block == CurvatureBlock::Layer;
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  return options;
}

bool probes_curvature(const RunConfig& config, const RunParts& parts) {
  return parts.method.per_layer && config.control.replay.empty() &&
         config.control.curvature != CurvatureSource::Off;
}

/// Batch norm needs two samples: where a map is a single pixel, one has no variance.
std::int64_t smallest_pass_of(const Network& network) {
  for (const auto& buffer : network.module->named_buffers())
    if (buffer.key().ends_with("running_var")) return 2;
  return 1;
}

ControlSetup control_setup_for(const RunConfig& config, const RunParts& parts) {
  ControlSetup setup{.plan = parts.plan,
                     .kinds = kinds_of(parts.network),
                     .normalized = normalized_of(parts.network),
                     .options = control_options(config, parts),
                     .smallest_pass = smallest_pass_of(parts.network),
                     .moves_boundary = config.zeroth_order.move_boundary,
                     .zeroth_order = parts.method.zeroth_order};
  if (parts.runner->saved() != nullptr) setup.activations = activation_options(config);
  if (parts.method.per_layer && !config.control.replay.empty()) try {
      setup.replayed.emplace(read_plans(config.control.replay));
    } catch (const StorageError& error) {
      throw DataError(text("[--replay] ", error.what(), "; pass the plans.jsonl of a run"));
    }
  if (probes_curvature(config, parts)) setup.probe_every = config.control.curvature_every;
  return setup;
}

}  // namespace triaccel
