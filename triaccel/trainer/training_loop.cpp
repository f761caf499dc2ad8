#include "triaccel/trainer/training_loop.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/telemetry/efficiency_score.h"
#include "triaccel/trainer/diagnosis.h"
#include "triaccel/trainer/evaluation.h"
#include "triaccel/trainer/network_state.h"
#include "triaccel/trainer/run_checkpoint.h"

namespace triaccel {
namespace {

// A dynamic loss scale may need this many halvings from 2^24 down to 1; more means no scale helps.
constexpr std::int64_t kMostSkipsInARow = 30;

// A fault that comes back after so many returns to the last checkpoint is not a passing one.
constexpr std::int64_t kMostRollbacks = 3;

std::int64_t samples_in_run(const RunConfig& config, std::int64_t samples_per_epoch) {
  if (config.train.steps > 0) {
    // The last step of an epoch is a short one.
    const std::int64_t batch =
        std::min(config.train.batch * config.train.accumulate, samples_per_epoch);
    const std::int64_t steps_per_epoch = (samples_per_epoch + batch - 1) / batch;
    return config.train.steps / steps_per_epoch * samples_per_epoch +
           config.train.steps % steps_per_epoch * batch;
  }
  return std::max<std::int64_t>(
      1, std::llround(config.train.epochs * static_cast<double>(samples_per_epoch)));
}

}  // namespace

TrainingLoop::TrainingLoop(const RunConfig& config, RunParts& parts, const TrainingHooks& hooks,
                           CheckpointStore* store)
    : config_(config),
      parts_(parts),
      hooks_(hooks),
      store_(store),
      sampler_(parts.data.training_ids, static_cast<std::uint64_t>(config.train.seed)),
      order_(parts.on.device),
      total_samples_(samples_in_run(config, sampler_.samples_per_epoch())),
      control_(config, parts),
      plan_(control_.first_plan()),
      watchdog_(config.run.watchdog_seconds, hooks.on_hang) {
  const double warmup_samples =
      config.train.warmup_epochs * static_cast<double>(sampler_.samples_per_epoch());
  schedule_ = {.peak = config.train.lr,
               // `--steps` may end inside the warm-up its epochs would ask for.
               .warmup_samples =
                   std::min<std::int64_t>(std::llround(warmup_samples), (total_samples_ + 5) / 6),
               .total_samples = total_samples_};
  progress_.early_stopping.patience = config.train.patience;
}

RunInfo TrainingLoop::info() const {
  RunInfo info{.run = config_.run.name,
               .method = config_.train.method,
               .model = parts_.network.name,
               .data = config_.data.name,
               .device = device_text(parts_.on.device),
               .commit = std::string(build_commit()),
               .seed = static_cast<std::uint64_t>(config_.train.seed),
               .epochs = static_cast<double>(total_samples_) /
                         static_cast<double>(sampler_.samples_per_epoch()),
               .training_samples = sampler_.samples_per_epoch(),
               .total_samples = total_samples_,
               .budget_bytes = parts_.on.budget_bytes,
               .first_step = progress_.step};
  for (const LayerInfo& layer : parts_.network.layers.layers())
    info.layer_names.push_back(layer.name);
  return info;
}

double TrainingLoop::epoch_now() const {
  return static_cast<double>(progress_.samples) / static_cast<double>(sampler_.samples_per_epoch());
}

bool TrainingLoop::finished() const {
  if (progress_.stopped_early) return true;
  return config_.train.steps > 0 ? progress_.step >= config_.train.steps
                                 : progress_.samples >= total_samples_;
}

RunSummary TrainingLoop::run() {
  for (Sink* sink : hooks_.sinks) sink->start(info());
  for (const std::string& message : parts_.data.notices) note(message);
  tell_plan();
  parts_.network.module->train();
  parts_.on.gauge.reset_peak();
  seconds_before_ = progress_.seconds;
  session_.restart();
  interval_.restart();
  while (!finished()) {
    watchdog_.enter("step");
    const std::int64_t epoch = sampler_.epoch();
    one_step();
    if (control_.probe_due(progress_.step)) probe_curvature();
    const bool epoch_ended = sampler_.epoch() != epoch;
    const bool stop = hooks_.stop_requested && hooks_.stop_requested();
    if (epoch_ended || stop || finished() || progress_.step % config_.train.control_interval == 0)
      control_tick();
    if (epoch_ended) end_epoch();
    const std::int64_t every = config_.run.checkpoint_every;
    if (finished()) break;  // saved below, once evaluated
    if (stop || (every > 0 ? progress_.step % every == 0 : epoch_ended)) save();
    if (stop) return summary("interrupted", {});
  }
  const EvaluationReport last = evaluate_split(/*validation=*/false);
  progress_.best_accuracy = std::max(progress_.best_accuracy, last.accuracy);
  for (Sink* sink : hooks_.sinks) sink->evaluation(last);
  save();
  return summary(progress_.stopped_early ? "stopped early" : "finished", last);
}

void TrainingLoop::one_step() {
  // What is left of the epoch, or of a run that ends inside one.
  std::int64_t left = sampler_.samples_per_epoch() - sampler_.cursor();
  if (config_.train.steps == 0) left = std::min(left, total_samples_ - progress_.samples);
  // A single last sample joins the step before it.
  const std::int64_t wanted =
      left == plan_.batch_size + 1 ? left : std::min(plan_.batch_size, left);
  for (;;) {
    const at::Tensor ids = order_.upcoming(sampler_, wanted);
    const std::int64_t count = ids.numel();
    learning_rate_ = learning_rate_at(schedule_, progress_.samples, count);
    try {
      parts_.runner->run(plan_, *parts_.data.train, ids,
                         {.augment = config_.data.augment,
                          .epoch = sampler_.epoch(),
                          .seed = static_cast<std::uint64_t>(config_.train.seed)},
                         learning_rate_);
      sampler_.take(count);
      interval_ids_.push_back(ids);
      progress_.step += 1;
      progress_.samples += count;
      interval_steps_ += 1;
      interval_samples_ += count;
      return;
    } catch (const OutOfMemory& error) {
      const auto smaller = control_.after_out_of_memory(plan_);
      if (!smaller)
        throw OutOfMemory(text("[train] the smallest forward pass does not fit the budget of ",
                               byte_text(parts_.on.budget_bytes), ": ", error.what(),
                               "; raise --budget or choose a smaller model"));
      plan_ = *smaller;
      tell_plan();
      ++interval_retries_;
      note(text("out of memory: the same ", count, " samples are trained again, ",
                plan_.micro_batch_size, " at a time"));
    }
  }
}

void TrainingLoop::probe_curvature() {
  const Stopwatch watch;
  watchdog_.enter("curvature probe");
  before_probe_ = parts_.on.gauge.read();
  const at::Tensor ids = order_.upcoming(sampler_, control_.probe_batch());
  curvature_ = control_.probe(ids, *parts_.data.train, progress_.step);
  progress_.curvature_probes += curvature_->skipped.empty();
  if (!curvature_->skipped.empty()) note("no curvature probe: " + curvature_->skipped);
  // What the probe took counts for the run, but not for how a batch's memory grows.
  parts_.on.gauge.release_cache();
  start_new_peak();
  progress_.control_seconds += watch.seconds();
}

StepReport TrainingLoop::interval_report() {
  StepReport report = parts_.runner->collect();
  report.step = progress_.step;
  report.samples = progress_.samples;
  report.epoch = epoch_now();
  report.interval_steps = std::exchange(interval_steps_, 0);
  report.interval_samples = std::exchange(interval_samples_, 0);
  report.memory_retries = std::exchange(interval_retries_, 0);
  report.learning_rate = learning_rate_;
  report.seconds = interval_.restart() - std::exchange(seconds_not_training_, 0);
  report.curvature = std::exchange(curvature_, std::nullopt);
  const MemoryReport before = std::exchange(before_probe_, {});
  report.memory.peak = std::max(report.memory.peak, before.peak);
  report.memory.reserved = std::max(report.memory.reserved, before.reserved);
  return report;
}

void TrainingLoop::control_tick() {
  const StepReport report = interval_report();
  watchdog_.alive();
  progress_.epoch_seconds += report.seconds;
  progress_.seconds = seconds_before_ + session_.seconds();
  progress_.skipped_steps += report.skipped_steps;
  progress_.memory_retries += report.memory_retries;
  progress_.largest_batch = std::max(progress_.largest_batch, plan_.batch_size);
  progress_.peak_bytes = std::max(progress_.peak_bytes, report.memory.peak);
  progress_.peak_reserved_bytes = std::max(progress_.peak_reserved_bytes, report.memory.reserved);
  for (Sink* sink : hooks_.sinks) sink->interval(report, plan_);
  examine_skipped_steps(report);
  interval_ids_.clear();
  const Stopwatch watch;
  decide_next_plan(report);
  progress_.control_seconds += watch.seconds();
  parts_.on.gauge.reset_peak();
}

void TrainingLoop::decide_next_plan(const StepReport& report) {
  Decision decision = control_.next(report, plan_);
  for (const std::string& event : decision.events) note(event);
  if (shape_hash(decision.plan) != shape_hash(plan_)) {
    ++progress_.plan_changes;
    // Blocks cached for other sizes would count as taken, and the next peak with them.
    parts_.on.gauge.release_cache();
  }
  const bool changed = decision.plan != plan_;
  plan_ = std::move(decision.plan);
  if (changed) tell_plan();
}

void TrainingLoop::tell_plan() {
  for (Sink* sink : hooks_.sinks) sink->plan(progress_.step, plan_);
}

void TrainingLoop::examine_skipped_steps(const StepReport& report) {
  if (report.skipped_steps == 0 && !finished()) return;
  if (report.skipped_steps == 0) {  // a run must not end on weights that are no numbers
    const std::vector<std::string> broken = nonfinite_tensors(parts_.network);
    if (!broken.empty()) roll_back("'" + broken.front() + "' is not finite any more");
    return;
  }
  const std::string layer =
      report.skipped_layer < 0
          ? ""
          : text(" (layer '", parts_.network.layers[report.skipped_layer].name, "')");
  // A dynamic loss scale overflows now and then by design, and only the weights are looked at.
  const bool expected = parts_.method.loss_scaling && report.consecutive_skips < kMostSkipsInARow;
  const Diagnosis found = diagnose(parts_.network, *parts_.data.train,
                                   expected ? std::span<const at::Tensor>() : interval_ids_,
                                   parts_.runner->forward_rules());
  if (!expected || !found.tensors.empty())
    note(text(report.skipped_steps, " step(s) up to step ", report.step,
              " skipped for gradients that are not finite", layer, ": ", found.text()));
  if (!found.tensors.empty()) return roll_back(found.text());
  if (report.consecutive_skips >= kMostSkipsInARow)
    throw NumericalFailure(text("[train] the gradients of ", report.consecutive_skips,
                                " steps in a row were not finite (step ", report.step, ")", layer,
                                ": ", found.text(), "; lower --lr, or look at the data"));
}

void TrainingLoop::roll_back(const std::string& why) {
  const std::int64_t rollbacks = progress_.rollbacks + 1;
  std::optional<LoadedCheckpoint> checkpoint;
  if (store_ != nullptr && rollbacks <= kMostRollbacks) checkpoint = store_->load_latest();
  if (!checkpoint)
    throw NumericalFailure(text("[train] step ", progress_.step, ": ", why, " after ",
                                rollbacks - 1, " return(s) to an earlier state; lower --lr"));
  restore(*checkpoint);
  progress_.rollbacks = rollbacks;
  tell_plan();
  note(text("back to step ", progress_.step, ", the last checkpoint: ", why));
}

void TrainingLoop::end_epoch() {
  progress_.finish_epoch();
  if (finished()) return;  // the last evaluation follows anyway
  const bool validation = !parts_.data.validation_ids.empty();
  const EvaluationReport report = evaluate_split(validation);
  for (Sink* sink : hooks_.sinks) sink->evaluation(report);
  progress_.best_accuracy = std::max(progress_.best_accuracy, report.accuracy);
  progress_.stopped_early = progress_.early_stopping.should_stop_after(report.loss);
}

EvaluationReport TrainingLoop::evaluate_split(bool validation) {
  watchdog_.enter("evaluation");
  const Stopwatch watch;
  std::optional<ScopedAverage> averaged;
  if (WeightAverage* average = parts_.runner->weight_average()) averaged.emplace(*average);
  std::vector<std::int64_t> ids = parts_.data.validation_ids;
  if (!validation) {
    ids.resize(static_cast<std::size_t>(parts_.data.test->size()));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  }
  EvaluationReport report =
      evaluate(parts_.network, validation ? *parts_.data.train : *parts_.data.test, ids,
               parts_.runner->forward_rules(), plan_.micro_batch_size, parts_.on.device,
               [this] { watchdog_.alive(); });
  report.step = progress_.step;
  report.epoch = epoch_now();
  report.split = validation ? "validation" : "test";
  start_new_peak();
  seconds_not_training_ += watch.seconds();
  return report;
}

void TrainingLoop::start_new_peak() {
  const MemoryReport memory = parts_.on.gauge.read();
  progress_.peak_bytes = std::max(progress_.peak_bytes, memory.peak);
  progress_.peak_reserved_bytes = std::max(progress_.peak_reserved_bytes, memory.reserved);
  parts_.on.gauge.reset_peak();
}

void TrainingLoop::note(const std::string& message) {
  for (Sink* sink : hooks_.sinks) sink->notice(message);
}

RunSummary TrainingLoop::summary(std::string status,
                                 const std::optional<EvaluationReport>& last) const {
  const std::vector<double>& epochs = progress_.last_epoch_seconds;
  const double epoch_total = std::accumulate(epochs.begin(), epochs.end(), 0.0);
  const auto layers_in = [&](Precision precision) {
    return std::ranges::count(plan_.layers, precision, &LayerPlan::compute);
  };
  RunSummary summary{.status = std::move(status),
                     .method = config_.train.method,
                     .model = parts_.network.name,
                     .stem = config_.model.name.starts_with("resnet") ? config_.model.stem : "",
                     .data = config_.data.name,
                     .device = device_text(parts_.on.device),
                     .commit = std::string(build_commit()),
                     .seed = static_cast<std::uint64_t>(config_.train.seed),
                     .accuracy = last ? 100 * last->accuracy : std::nan(""),
                     .loss = last ? last->loss : std::nan(""),
                     .best_accuracy = 100 * progress_.best_accuracy,
                     .epochs = epoch_now(),
                     .seconds = progress_.seconds,
                     .seconds_per_epoch = epochs.empty()
                                              ? progress_.epoch_seconds
                                              : epoch_total / static_cast<double>(epochs.size()),
                     .samples = progress_.samples,
                     .steps = progress_.step,
                     .peak_bytes = progress_.peak_bytes,
                     .peak_reserved_bytes = progress_.peak_reserved_bytes,
                     .data_bytes = parts_.data.train->bytes() + parts_.data.test->bytes(),
                     .budget_bytes = parts_.on.budget_bytes,
                     .batch_final = plan_.batch_size,
                     .batch_largest = progress_.largest_batch,
                     .skipped_steps = progress_.skipped_steps,
                     .memory_retries = progress_.memory_retries,
                     .rollbacks = progress_.rollbacks,
                     .plan_changes = progress_.plan_changes,
                     .curvature_probes = progress_.curvature_probes,
                     .control_seconds = progress_.control_seconds,
                     .layers_fp32 = layers_in(Precision::Fp32),
                     .layers_bf16 = layers_in(Precision::Bf16),
                     .layers_fp16 = layers_in(Precision::Fp16),
                     .parameters = parameter_count(parts_.network)};
  summary.score = efficiency_score(summary);
  return summary;
}

void TrainingLoop::save() {
  if (store_ == nullptr) return;
  watchdog_.enter("save");
  progress_.seconds = seconds_before_ + session_.seconds();
  const Stopwatch watch;
  // The last update itself may have gone wrong; a checkpoint is there to come back to.
  const std::vector<std::string> broken = nonfinite_tensors(parts_.network);
  if (!broken.empty()) return roll_back("'" + broken.front() + "' is not finite any more");
  start_new_peak();
  // Staging bytes for the disk is no part of what the budget is for.
  const BudgetLifted unlimited(parts_.on);
  const SavedCheckpoint saved =
      save_run(*store_, config_, {parts_, sampler_, progress_, control_, plan_});
  for (const std::string& message : saved.notices) note(message);
  seconds_not_training_ += watch.seconds();
}

void TrainingLoop::restore(const LoadedCheckpoint& checkpoint) {
  restore_run(checkpoint, config_, {parts_, sampler_, progress_, control_, plan_});
}

}  // namespace triaccel
