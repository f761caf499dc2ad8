#include "triaccel/trainer/loop/training_loop.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/policies/precision/precision_ladder.h"
#include "triaccel/trainer/config/run_schedule.h"
#include "triaccel/trainer/loop/network_state.h"
#include "triaccel/trainer/loop/run_checkpoint.h"
#include "triaccel/trainer/loop/run_summary.h"
#include "triaccel/trainer/measure/diagnosis.h"

namespace triaccel {
namespace {

// A dynamic loss scale may need this many halvings from 2^24 down to 1; more means no scale helps.
constexpr std::int64_t kMostSkipsInARow = 30;

// On a CPU, where asking costs nothing, the first skip is looked into in the same step and so many
// in a row are answered at once. A GPU is read only now and then; but while it skips, and on either
// while skips go on, after a few steps.
constexpr std::int64_t kSkipsToAnswer = 3;
constexpr std::int64_t kStepsWhileSkipping = 4;

// A fault that comes back after so many returns to one checkpoint is not a passing one.
constexpr std::int64_t kMostRollbacks = 3;

// A step that cannot be made smaller may still fit once another process has given memory back.
constexpr std::int64_t kMostTries = 3;

/// Whether a layer computes in more bits than before.
bool lifts_a_layer(const StepPlan& from, const StepPlan& to) {
  return !std::ranges::equal(to.layers, from.layers, [](const LayerPlan& a, const LayerPlan& b) {
    return rank_of(a.compute) <= rank_of(b.compute);
  });
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
      evaluator_(parts.network, parts.on.device, parts.runner->graphs()),
      schedule_(schedule_of(config, sampler_.samples_per_epoch())),
      control_(config, parts),
      plan_(control_.first_plan()),
      watchdog_(config.run.watchdog_seconds, hooks.on_hang) {
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
               .epochs = static_cast<double>(schedule_.total_samples) /
                         static_cast<double>(sampler_.samples_per_epoch()),
               .training_samples = sampler_.samples_per_epoch(),
               .total_samples = schedule_.total_samples,
               .budget_bytes = parts_.on.budget_bytes,
               .first_step = progress_.step};
  for (const LayerInfo& layer : parts_.network.layers.layers())
    info.layer_names.push_back(layer.name);
  return info;
}

double TrainingLoop::epoch_now() const {
  return static_cast<double>(progress_.samples) / static_cast<double>(sampler_.samples_per_epoch());
}

/// In samples; where steps are counted, those of as many steps of the first plan, so that a batch
/// that grows does not come to the end of the schedule before the run does.
std::int64_t TrainingLoop::schedule_position() const {
  return config_.train.steps == 0 ? progress_.samples
                                  : schedule_.total_samples * progress_.step / config_.train.steps;
}

bool TrainingLoop::finished() const {
  if (progress_.stopped_early) return true;
  return config_.train.steps > 0 ? progress_.step >= config_.train.steps
                                 : progress_.samples >= schedule_.total_samples;
}

RunSummary TrainingLoop::run() {
  for (Sink* sink : hooks_.sinks) sink->start(info());
  for (const std::string& message : parts_.data.notices) note(message);
  parts_.network.module->train();
  look_at_saved(/*first=*/true);
  tell_plan();
  parts_.on.gauge.reset_peak();
  seconds_before_ = progress_.seconds;
  session_.restart();
  interval_.restart();
  while (!finished()) {
    watchdog_.enter("step");
    const std::int64_t epoch = sampler_.epoch();
    one_step();
    const Due due = due_after_step(sampler_.epoch() != epoch);
    if (!due.look && !due.decide && !due.save && !finished()) continue;
    if (!look_at_interval(due)) continue;             // back at an earlier step
    if (due.decide && !decide_next_plan()) continue;  // likewise
    if (due.end_of_epoch) end_epoch();
    if (finished()) break;  // saved below, once evaluated
    // Weights that are of no use must not take the place of those to go back to.
    if (due.save && (due.stop || !weights_astray_)) save();
    if (due.stop) return summary("interrupted", {});
  }
  // Where samples are held out they alone choose; a run that stopped early has just seen them.
  if (has_validation() && !progress_.stopped_early) evaluate_split(/*validation=*/true);
  const EvaluationReport last = evaluate_split(/*validation=*/false);
  save();
  return summary(progress_.stopped_early ? "stopped early" : "finished", last);
}

TrainingLoop::Due TrainingLoop::due_after_step(bool end_of_epoch) const {
  const std::int64_t step = progress_.step;
  const std::int64_t every = config_.run.checkpoint_every;
  const std::int64_t skips =
      parts_.on.device.is_cpu() ? parts_.runner->gradient_control().consecutive_skips() : 0;
  const bool skipping = step == progress_.look_again_at || skips == kSkipsToAnswer;
  Due due{.end_of_epoch = end_of_epoch,
          .stop = hooks_.stop_requested && hooks_.stop_requested(),
          .save = every > 0 ? step % every == 0 : end_of_epoch,
          .probe = control_.probe_due(step),
          .look = skips == 1};
  due.save |= due.stop;
  // Decisions come at the same steps wherever the run is saved or cut.
  due.decide = !finished() && (end_of_epoch || due.probe || skipping ||
                               step % config_.train.control_interval == 0);
  return due;
}

void TrainingLoop::one_step() {
  if (auto replayed = control_.replayed_change(progress_.step, plan_)) change_plan(*replayed);
  // What is left of the epoch, or of a run that ends inside one.
  std::int64_t left = sampler_.samples_per_epoch() - sampler_.cursor();
  if (config_.train.steps == 0) left = std::min(left, schedule_.total_samples - progress_.samples);
  // A single last sample joins the step before it.
  const std::int64_t wanted =
      left == plan_.batch_size + 1 ? left : std::min(plan_.batch_size, left);
  for (std::int64_t failures = 1;; ++failures) {
    learning_rate_ = learning_rate_at(schedule_, schedule_position(), wanted);
    zeroth_order_rate_ = zeroth_order_rate_at(config_, epoch_now());
    try {
      const at::Tensor ids =
          catching_out_of_memory([&] { return order_.upcoming(sampler_, wanted); });
      parts_.runner->run(plan_, *parts_.data.train, ids,
                         {.augment = augments(config_),
                          .epoch = sampler_.epoch(),
                          .seed = static_cast<std::uint64_t>(config_.train.seed)},
                         learning_rate_, zeroth_order_rate_);
      sampler_.take(wanted);
      interval_ids_.push_back(ids);
      progress_.step += 1;
      progress_.samples += wanted;
      interval_steps_ += 1;
      interval_samples_ += wanted;
      return;
    } catch (const OutOfMemory& error) {
      shrink_after(error, wanted, failures);
    }
  }
}

void TrainingLoop::shrink_after(const OutOfMemory& error, std::int64_t samples,
                                std::int64_t failures) {
  const auto smaller = control_.after_out_of_memory(plan_);
  if (!smaller && failures >= kMostTries)
    throw OutOfMemory(text("[train] the smallest forward pass does not fit the budget of ",
                           byte_text(parts_.on.budget_bytes), ": ", error.what(),
                           "; raise --budget or choose a smaller model"));
  if (smaller) change_plan(*smaller);
  ++interval_retries_;
  note(text("out of memory: the same ", samples, " samples are trained again, ",
            plan_.micro_batch_size, " at a time"));
}

std::optional<CurvatureReport> TrainingLoop::probe_curvature() {
  const Stopwatch watch;
  watchdog_.enter("curvature probe");
  std::optional<CurvatureReport> report = control_.probe(
      [this] { return order_.upcoming(sampler_, control_.probe_batch()); }, progress_.step);
  start_new_peak();
  progress_.control_seconds += watch.seconds();
  return report;
}

StepReport TrainingLoop::interval_report() {
  synchronize(parts_.on.device);  // waiting for steps to end is training, reading them is control
  const Stopwatch watch;
  StepReport report = parts_.runner->collect();
  progress_.control_seconds += watch.seconds();
  report.step = progress_.step;
  report.samples = progress_.samples;
  report.epoch = epoch_now();
  report.interval_steps = std::exchange(interval_steps_, 0);
  report.interval_samples = std::exchange(interval_samples_, 0);
  report.memory_retries = std::exchange(interval_retries_, 0);
  report.learning_rate = parts_.method.backprop ? learning_rate_ : zeroth_order_rate_;
  if (RunCompression* compression = control_.compression()) compression->complete(report);
  report.seconds = interval_.restart() - std::exchange(seconds_not_training_, 0);
  return report;
}

bool TrainingLoop::look_at_interval(const Due& due) {
  StepReport report = interval_report();
  watchdog_.alive();
  start_new_peak();
  if (due.decide) report.curvature = control_.probed();
  // A probe of weights that just gave no finite gradient says nothing.
  if (due.probe && report.consecutive_skips == 0)
    if (auto found = probe_curvature()) report.curvature = std::move(found);
  if (report.curvature) {
    progress_.curvature_probes += report.curvature->skipped.empty();
    if (!report.curvature->skipped.empty())
      note("no curvature probe: " + report.curvature->skipped);
  }
  progress_.epoch_seconds += report.seconds;
  progress_.seconds = seconds_before_ + session_.seconds();
  progress_.skipped_steps += report.skipped_steps;
  progress_.memory_retries += report.memory_retries;
  progress_.largest_batch = std::max(progress_.largest_batch, plan_.batch_size);
  for (Sink* sink : hooks_.sinks) sink->interval(report, plan_);
  const bool sound = is_sound(report, due.save || due.end_of_epoch || finished());
  interval_ids_.clear();
  start_new_peak();
  if (sound) pending_.add(report);
  return sound;
}

bool TrainingLoop::decide_next_plan() {
  const Stopwatch watch;
  const StepReport report = pending_.take();
  Decision decision = control_.next(report, plan_);
  progress_.look_again_at = report.consecutive_skips > 0 ? progress_.step + kStepsWhileSkipping : 0;
  // As long as a layer can still be lifted, that may mend it.
  if (report.consecutive_skips >= kMostSkipsInARow && !lifts_a_layer(plan_, decision.plan)) {
    if (!weights_astray_) give_up(report);
    roll_back(text(report.consecutive_skips, " steps in a row were skipped", last_skips_));
    return false;
  }
  if (RunCompression* compression = control_.compression())
    compression->after(report, schedule_progress(), decision.plan, decision.events);
  for (const std::string& event : decision.events) note(event);
  if (GraphCache* graphs = parts_.runner->graphs(); graphs != nullptr && graphs->thrashes())
    note("plans change faster than captured steps pay for themselves; see --dwell, --graphs off");
  change_plan(std::move(decision.plan));
  look_at_saved(/*first=*/false);
  progress_.control_seconds += watch.seconds();
  return true;
}

double TrainingLoop::schedule_progress() const {
  return static_cast<double>(schedule_position()) / static_cast<double>(schedule_.total_samples);
}

void TrainingLoop::look_at_saved(bool first) {
  RunCompression* const compression = control_.compression();
  if (compression == nullptr || !(first || compression->look_due(progress_.step))) return;
  const at::Tensor ids =
      catching_out_of_memory([&] { return order_.upcoming(sampler_, RunCompression::kSamples); });
  if (!first && ids.numel() < RunCompression::kSamples) return;  // at an epoch's end
  StepPlan plan = plan_;
  PolicyEvents events;
  try {
    if (first && !plan.saved.empty())
      compression->meet(ids, plan);
    else
      compression->look(ids, plan, events);
  } catch (const OutOfMemory& error) {
    if (first) throw;
    events.push_back(text("no look at saved tensors, their plans stay: ", error.what()));
  }
  // What the look took counts for the run, but not for how a batch's memory grows.
  parts_.on.gauge.release_cache();
  start_new_peak();
  for (const std::string& event : events) note(event);
  if (first)
    plan_ = std::move(plan);
  else
    change_plan(std::move(plan));
}

void TrainingLoop::change_plan(StepPlan next) {
  if (next == plan_) return;
  if (shape_hash(next) != shape_hash(plan_)) {
    ++progress_.plan_changes;
    // Blocks cached for other sizes would count as taken, and the next peak with them.
    parts_.on.gauge.release_cache();
    start_new_peak();
  }
  plan_ = std::move(next);
  tell_plan();
}

void TrainingLoop::tell_plan() {
  for (Sink* sink : hooks_.sinks) sink->plan(progress_.step, plan_);
}

bool TrainingLoop::is_sound(const StepReport& report, bool look_at_weights) {
  if (report.skipped_steps == 0) {
    weights_astray_ = false;
    if (!look_at_weights) return true;
    // The last update itself may have gone wrong; what is evaluated and saved must be numbers.
    const std::vector<std::string> broken = nonfinite_tensors(parts_.network);
    if (!broken.empty()) roll_back("'" + broken.front() + "' is not finite any more");
    return broken.empty();
  }
  const std::string layer =
      report.skipped_layer < 0
          ? ""
          : text(" (layer '", parts_.network.layers[report.skipped_layer].name, "')");
  // A dynamic loss scale overflows now and then by design, and only the weights are looked at.
  const bool expected = parts_.method.loss_scaling && report.consecutive_skips < kMostSkipsInARow;
  const Diagnosis found = diagnose(parts_.network, *parts_.data.train,
                                   expected ? std::span<const at::Tensor>() : interval_ids_,
                                   parts_.runner->forward_rules(), plan_.micro_batch_size);
  last_skips_ = text(layer, ": ", found.text());
  weights_astray_ = found.weights_astray();
  if (!expected || !found.tensors.empty())
    note(text(report.skipped_steps, " step(s) up to step ", report.step,
              " skipped for gradients that are not finite", last_skips_));
  if (!found.tensors.empty()) {
    roll_back(found.text());
    return false;
  }
  if (finished() && report.consecutive_skips >= kMostSkipsInARow) give_up(report);
  return true;
}

void TrainingLoop::give_up(const StepReport& report) const {
  throw NumericalFailure(text("[train] the gradients of ", report.consecutive_skips,
                              " steps in a row were not finite (step ", report.step, ")",
                              last_skips_, "; lower --lr, or look at the data"));
}

void TrainingLoop::roll_back(const std::string& why) {
  std::optional<LoadedCheckpoint> checkpoint;
  if (store_ != nullptr && rollbacks_to_checkpoint_ < kMostRollbacks)
    checkpoint = store_->load_latest();
  if (!checkpoint)
    throw NumericalFailure(
        text("[train] step ", progress_.step, ": ", why,
             rollbacks_to_checkpoint_ == 0 ? std::string()
                                           : text(" after ", rollbacks_to_checkpoint_, " rollback",
                                                  rollbacks_to_checkpoint_ == 1 ? "" : "s"),
             "; lower --lr", control_.compression() ? " or --activation-ratio" : ""));
  ++progress_.rollbacks;
  const RunProgress before = progress_;
  restore(*checkpoint);
  progress_.keep_costs_of(before);
  ++rollbacks_to_checkpoint_;
  tell_plan();
  note(text("back to step ", progress_.step, ", the last checkpoint: ", why));
  if (RunCompression* compression = control_.compression()) {
    PolicyEvents events;
    StepPlan careful = plan_;
    compression->after_rollback(progress_.step, careful, events);
    for (const std::string& event : events) note(event);
    change_plan(std::move(careful));
  }
}

void TrainingLoop::end_epoch() {
  progress_.finish_epoch();
  if (finished()) return;  // the last evaluation follows anyway
  const EvaluationReport report = evaluate_split(has_validation());
  if (RunCompression* compression = control_.compression()) {
    PolicyEvents events;
    // The test set must not steer.
    compression->after_epoch(has_validation() ? 100 * report.accuracy : kUnmeasured, events);
    for (const std::string& event : events) note(event);
  }
  progress_.stopped_early = progress_.early_stopping.should_stop_after(report.loss);
}

EvaluationReport TrainingLoop::evaluate_split(bool validation) {
  watchdog_.enter("evaluation");
  const Stopwatch watch;
  parts_.runner->follow(plan_);  // decided, but no step has run by it yet
  std::optional<ScopedAverage> averaged;
  if (WeightAverage* average = parts_.runner->weight_average()) averaged.emplace(*average);
  std::vector<std::int64_t> ids = parts_.data.validation_ids;
  if (!validation) {
    ids.resize(static_cast<std::size_t>(parts_.data.test->size()));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  }
  EvaluationReport report =
      evaluator_.evaluate(validation ? *parts_.data.train : *parts_.data.test, ids,
                          {.forward = parts_.runner->forward_rules(),
                           .shape = shape_hash(plan_),
                           .batch = plan_.micro_batch_size},
                          [this] { watchdog_.alive(); });
  report.step = progress_.step;
  report.epoch = epoch_now();
  report.split = validation ? "validation" : "test";
  start_new_peak();
  seconds_not_training_ += watch.seconds();
  if (validation == has_validation())
    progress_.best_accuracy = std::max(progress_.best_accuracy, report.accuracy);
  for (Sink* sink : hooks_.sinks) sink->evaluation(report);
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
  return run_summary(config_, parts_, progress_, control_.compression(), plan_, std::move(status),
                     last);
}

void TrainingLoop::save() {
  if (store_ == nullptr) return;
  watchdog_.enter("save");
  progress_.seconds = seconds_before_ + session_.seconds();
  const Stopwatch watch;
  start_new_peak();
  // Staging bytes for the disk is no part of what the budget is for.
  const BudgetLifted unlimited(parts_.on);
  const SavedCheckpoint saved =
      save_run(*store_, config_, {parts_, sampler_, progress_, control_, pending_, plan_});
  rollbacks_to_checkpoint_ = 0;
  for (const std::string& message : saved.notices) note(message);
  seconds_not_training_ += watch.seconds();
}

void TrainingLoop::restore(const LoadedCheckpoint& checkpoint) {
  restore_run(checkpoint, config_, {parts_, sampler_, progress_, control_, pending_, plan_});
  interval_steps_ = interval_samples_ = interval_retries_ = 0;
  interval_ids_.clear();
  parts_.runner->follow(plan_);  // it may be evaluated before it trains
}

}  // namespace triaccel
