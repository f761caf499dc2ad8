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
RateRule rate_rule(const std::string& name, RateRule of_the_set) {
  if (name == "auto") return of_the_set;
  for (const RateRule rule : {RateRule::None, RateRule::Linear, RateRule::Sqrt, RateRule::AdaScale})
    if (name_of(rule) == name) return rule;
  throw UsageError(text("[--batch-rate] unknown value '", name, "'"));
}

BatchMode batch_mode(const std::string& name) {
  for (const BatchMode mode : {BatchMode::Off, BatchMode::Elastic, BatchMode::Micro})
    if (name_of(mode) == name) return mode;
  throw UsageError(text("[--batch-control] unknown value '", name, "'"));
}

BatchOptions batch_options(const RunConfig& config, const RunParts& parts,
                           const BatchOptions& of_the_set) {
  const RunConfig::Control& control = config.control;
  const MemoryReport memory = parts.on.gauge.read();
  const BatchMode mode = batch_mode(control.batch);
  const bool scheduled = control.batch_growth == "schedule";
  std::int64_t smallest = mode == BatchMode::Micro ? 2 : of_the_set.smallest;
  smallest = std::min(smallest, parts.plan.batch_size);
  if (control.largest_batch > 0) smallest = std::min(smallest, control.largest_batch);
  return {.mode = mode,
          // The budget is what the device's allocator takes, cached blocks included.
          .signal = parts.on.device.is_cuda() ? MemorySignal::Reserved : MemorySignal::Peak,
          // What is free, and what we hold already, weights and data among it.
          .device_bytes = device_free_bytes(parts.on.device) +
                          (parts.on.device.is_cuda() ? memory.reserved : memory.used),
          .rho_low = control.rho_low,
          .rho_high = control.rho_high,
          .smallest = control.smallest_batch > 0 ? control.smallest_batch : smallest,
          .largest = control.largest_batch,
          .delta_up = control.batch_up,
          .delta_down = control.batch_down,
          // The CPU's account is exact; a GPU's allocator counts in blocks.
          .measurement_noise = parts.on.device.is_cuda() ? of_the_set.measurement_noise : 0.002,
          .kappa = control.noise_share,
          .wait_for_noise = scheduled && control.curvature == "fisher_gram",  // which measures it
          .grow_as_rate_falls = scheduled,
          .rate = rate_rule(control.batch_rate, of_the_set.rate)};
}

ControlOptions control_options(const RunConfig& config, const RunParts& parts) {
  if (!parts.method.per_layer) return no_control();
  const RunConfig::Control& control = config.control;
  ControlOptions options =
      default_options(control.policy == "paper" ? PolicySet::Paper : PolicySet::Robust);
  options.precision_on = control.precision == "auto";
  options.curvature_on = control.curvature != "off";
  PrecisionOptions& precision = options.precision;
  precision.beta = control.variance_decay;
  precision.has_bf16 = parts.formats.bf16;
  precision.has_fp16 = parts.formats.fp16;
  precision.automatic = control.tau_high == 0;
  precision.tau_low = control.tau_low;
  precision.tau_high = control.tau_high;
  precision.prefer_fp16 = control.prefer_fp16;
  precision.dwell_ticks = control.dwell;
  precision.changes_per_tick = control.most_changes;
  CurvatureRules& curvature = options.curvature;
  curvature.cap = control.curvature_cap > 0 ? control.curvature_cap
                                            : curvature_cap(curvature_options(config).mode);
  curvature.alpha = control.alpha;
  curvature.rate_floor = control.smallest_rate;
  curvature.momentum = config.train.optimizer == "sgd" ? config.train.momentum : 0;
  curvature.automatic = control.tau_curvature == 0;
  curvature.tau = std::max(0.0, control.tau_curvature);
  options.batch = batch_options(config, parts, options.batch);
  return options;
}

std::vector<LayerKind> kinds_of(const Network& network) {
  std::vector<LayerKind> kinds;
  for (const LayerInfo& layer : network.layers.layers()) kinds.push_back(layer.kind);
  return kinds;
}

}  // namespace

ActivationOptions activation_options(const RunConfig& config) {
  const RunConfig::Activations& wanted = config.activations;
  ActivationOptions options{.fixed = registered_plan(wanted.keep),
                            .predict_blocks = wanted.prediction == "auto",
                            .profile_every = wanted.look_every};
  CompressionOptions& compression = options.compression;
  compression.mode = wanted.keep == "coded"     ? CompressionMode::Ratio
                     : wanted.keep == "bounded" ? CompressionMode::Error
                                                : CompressionMode::Lossless;
  compression.error_bound = wanted.error_bound;
  compression.loop.adapt = wanted.adapt;
  compression.loop.target_ratio = wanted.ratio;
  compression.loop.least_ratio = wanted.least_ratio;
  compression.loop.guard_points = wanted.guard;
  return options;
}

CurvatureOptions curvature_options(const RunConfig& config) {
  const RunConfig::Control& control = config.control;
  CurvatureOptions options;
  options.mode =
      control.curvature == "hessian" ? CurvatureMode::Hessian : CurvatureMode::FisherGram;
  options.top = control.curvature_top;
  options.batch = control.curvature_batch;
  options.whole_layer = control.curvature_block == "layer";
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  return options;
}

bool probes_curvature(const RunConfig& config, const RunParts& parts) {
  return parts.method.per_layer && config.control.replay.empty() &&
         config.control.curvature != "off";
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
                     .options = control_options(config, parts),
                     .smallest_pass = smallest_pass_of(parts.network),
                     .moves_boundary = config.zeroth_order.move_boundary,
                     .zeroth_order = parts.method.zeroth_order};
  if (parts.runner->saved() != nullptr) setup.activations = activation_options(config);
  if (parts.method.per_layer && !config.control.replay.empty())
    setup.replayed.emplace(read_plans(config.control.replay));
  if (probes_curvature(config, parts)) setup.probe_every = config.control.curvature_every;
  return setup;
}

}  // namespace triaccel
