#include "triaccel/trainer/loop/run_control.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/base/mixed_hash.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/telemetry/records/plan_record.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {
namespace {

constexpr std::uint64_t kProbeKey = 0x70726f6265;  // of captured work; no plan's

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
  // The CPU's account is exact; a GPU's allocator counts in blocks.
  if (!cuda) options.measurement_noise = 0.002;
  options.grow_as_rate_falls = control.batch_growth == BatchGrowth::Schedule;
  options.wait_for_noise =
      options.grow_as_rate_falls && control.curvature == CurvatureSource::FisherGram;
  options.rate = rate_rule(control.batch_rate, of_the_set.rate);
  return options;
}

ControlOptions control_options(const RunConfig& config, const RunParts& parts) {
  if (!parts.method.per_layer)
    return {.precision_on = false, .curvature_on = false, .batch = {.mode = BatchMode::Off}};
  const RunConfig::Control& control = config.control;
  ControlOptions options = default_options(control.policy);
  options.precision_on = control.precision == LayerPrecision::Auto;
  options.curvature_on = control.curvature != CurvatureSource::Off;
  PrecisionOptions& precision = options.precision = control.precision_rules;
  precision.has_bf16 = parts.formats.bf16;
  precision.has_fp16 = parts.formats.fp16;
  precision.automatic = precision.tau_high == 0;
  CurvatureRules& curvature = options.curvature = control.curvature_rules;
  if (curvature.cap == 0) curvature.cap = curvature_cap(curvature_options(config).mode);
  curvature.momentum = config.train.optimizer == OptimizerName::Sgd ? config.train.momentum : 0;
  curvature.automatic = curvature.tau == 0;
  curvature.tau = std::max(0.0, curvature.tau);
  options.batch = batch_options(config, parts, options.batch);
  return options;
}

std::vector<LayerKind> kinds_of(const Network& network) {
  std::vector<LayerKind> kinds;
  for (const LayerInfo& layer : network.layers.layers()) kinds.push_back(layer.kind);
  return kinds;
}

}  // namespace

/// Batch norm needs two samples: where a map is a single pixel, one has no variance.
std::int64_t smallest_pass_of(const Network& network) {
  for (const auto& buffer : network.module->named_buffers())
    if (buffer.key().ends_with("running_var")) return 2;
  return 1;
}

RunControl::RunControl(const RunConfig& config, RunParts& parts)
    : parts_(parts),
      curvature_(curvature_options(config)),
      label_smoothing_(config.train.label_smoothing),
      smallest_pass_(smallest_pass_of(parts.network)),
      controller_(control_options(config, parts), kinds_of(parts.network), parts.plan) {
  if (parts.method.zeroth_order) alarm_.emplace();
  if (parts.runner->saved() != nullptr)
    compression_ = std::make_unique<RunCompression>(config, parts);
  if (config.zeroth_order.move_boundary)
    boundary_.emplace(BoundaryOptions{.largest = parts.network.layers.size()});
  if (!parts.method.per_layer) return;
  if (!config.control.replay.empty()) {
    replayed_.emplace(read_plans(config.control.replay));
    return;
  }
  if (config.control.curvature == CurvatureSource::Off) return;
  probe_every_ = config.control.curvature_every;
  probe_ = std::make_unique<CurvatureProbe>(ProbeNetwork{.forward = parts.network.forward,
                                                         .parameters = parameters_of(parts.network),
                                                         .weights = layer_weights(parts.network),
                                                         .buffers = buffers_of(parts.network)},
                                            curvature_, parts.on.device);
}

StepPlan RunControl::first_plan() const {
  return replayed_ ? replayed_->plan_after(0, parts_.plan) : parts_.plan;
}

bool RunControl::probe_due(std::int64_t step) const {
  return probe_every_ > 0 && step > 0 && step % probe_every_ == 0;
}

std::optional<CurvatureReport> RunControl::probe(const std::function<at::Tensor()>& ids,
                                                 std::int64_t step) {
  const MemoryPurposeScope purpose(MemoryPurpose::Workspace);
  try {
    const at::Tensor samples = catching_out_of_memory(ids);
    if (replay_ != nullptr && samples.numel() == curvature_.batch) {  // not at an epoch's end
      try {
        replay_probe(samples, step);
        return {};
      } catch (const OutOfMemory&) {
        replays_ = false;  // the other way can do with fewer samples
        replay_.reset();
      }
    }
    CurvatureReport report = look_at_once(samples, step);
    if (!can_replay() || !report.skipped.empty()) return report;
    pending_probe_.start(std::move(report));  // decided upon when a captured one would be
    return {};
  } catch (const OutOfMemory& error) {
    return CurvatureReport{.mode = curvature_.mode, .step = step, .skipped = error.what()};
  }
}

bool RunControl::can_replay() const {
  return parts_.runner->graphs() != nullptr && curvature_.mode == CurvatureMode::FisherGram;
}

CurvatureReport RunControl::look_at_once(const at::Tensor& ids, std::int64_t step) {
  CurvatureReport report;
  const auto look = [&] {
    const Batch batch = parts_.data.train->gather(ids, {});
    report = probe_->run(batch.inputs, batch.targets, label_smoothing_, step);
  };
  // The memory of captured steps is free between them; but what hessian mode keeps from one probe
  // to the next must not lie there.
  if (can_replay())
    parts_.runner->graphs()->run_once(look);
  else
    catching_out_of_memory(look);
  const bool whole = report.skipped.empty() && report.batch == ids.numel();
  replays_ = replays_ && can_replay() && whole && !probe_->drew();
  if (replays_ && ids.numel() == curvature_.batch)
    catching_out_of_memory([&] {
      replay_ = std::make_unique<FisherReplay>(probe_->network(), curvature_, parts_.on.device);
      probe_ids_ = at::empty_like(ids);
    });
  // What the probe took counts for the run, but not for how a batch's memory grows.
  parts_.on.gauge.release_cache();
  return report;
}

void RunControl::replay_probe(const at::Tensor& ids, std::int64_t step) {
  const Stopwatch watch;
  const auto* const data = parts_.data.train.get();
  probe_ids_.copy_(ids);
  parts_.runner->graphs()->run(
      mixed_hash(kProbeKey, reinterpret_cast<std::uintptr_t>(data)), ids.numel(),
      [&](Enqueued enqueued) {
        const Batch batch = data->gather(probe_ids_, {});
        replay_->enqueue(
            {.inputs = batch.inputs, .targets = batch.targets, .label_smoothing = label_smoothing_},
            enqueued == Enqueued::Captured);
      });
  auto layers = replay_->read();
  pending_probe_.start(
      {.mode = curvature_.mode, .step = step, .batch = ids.numel(), .seconds = watch.seconds()},
      std::move(layers));
}

std::optional<StepPlan> RunControl::replayed_change(std::int64_t step,
                                                    const StepPlan& current) const {
  if (!replayed_ || step == 0) return {};
  const StepPlan& scheduled = replayed_->plan_after(step, current);
  if (scheduled == replayed_->plan_after(step - 1, current)) return {};
  return scheduled;
}

Decision RunControl::next(const StepReport& report, const StepPlan& current) {
  if (replayed_) return {.plan = current};
  Decision decision = controller_.next(report, current);
  if (boundary_) boundary_->apply(report, decision.plan, decision.events);
  if (alarm_)
    if (const auto rise = alarm_->after(report.loss, report.step))
      decision.events.push_back(*rise + "; a lower --zo-lr? see 'triaccel find-lr'");
  return decision;
}

std::optional<StepPlan> RunControl::after_out_of_memory(const StepPlan& failed) {
  auto smaller = controller_.out_of_memory(failed, smallest_pass_);
  if (!smaller && boundary_) smaller = boundary_->out_of_memory(failed);
  return smaller;
}

std::vector<StateView> RunControl::state() const {
  std::vector<StateView> all = controller_.state();
  if (probe_)
    for (StateView& view : probe_->state()) all.push_back(std::move(view));
  if (compression_)
    for (StateView& view : compression_->state()) all.push_back(std::move(view));
  for (StateView& view : pending_probe_.state()) all.push_back(std::move(view));
  if (boundary_)
    for (StateView& view : boundary_->state()) all.push_back(std::move(view));
  if (alarm_)
    for (StateView& view : alarm_->state()) all.push_back(std::move(view));
  return all;
}

void RunControl::restore(const StateMap& saved) {
  controller_.restore(saved);
  if (probe_) probe_->restore(saved);
  pending_probe_.restore(saved);
  if (compression_) compression_->restore(saved);
  if (boundary_) boundary_->restore(saved);
  if (alarm_) alarm_->restore(saved);
}

}  // namespace triaccel
