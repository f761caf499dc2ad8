#include "triaccel/trainer/loop/training_loop.h"

#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/policies/precision/precision_rules.h"
#include "triaccel/telemetry/records/efficiency_score.h"
#include "triaccel/trainer/config/config_text.h"
#include "triaccel/trainer/config/method.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {
namespace {

// A dynamic loss scale may need this many halvings from 2^24 down to 1; more means no scale helps.
constexpr std::int64_t kMostSkipsInARow = 30;

// On a CPU, where asking costs nothing, the first skip is diagnosed in the same step and so many
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

TrainingLoop::TrainingLoop(const RunConfig& config, StepEngine& engine, const TrainingHooks& hooks,
                           CheckpointStore* store)
    : config_(config),
      engine_(engine),
      hooks_(hooks),
      store_(store),
      sampler_(engine.training_ids(), static_cast<std::uint64_t>(config.train.seed)),
      total_samples_(schedule_of(config, sampler_.samples_per_epoch()).total_samples),
      control_(engine.control_setup()),
      plan_(control_.first_plan()),
      watchdog_(config.run.watchdog_seconds, hooks.on_hang) {
  progress_.early_stopping.patience = config.train.patience;
}

RunInfo TrainingLoop::info() const {
  RunInfo info = engine_.info();
  info.run = config_.run.name;
  info.method = config_.train.method;
  info.data = config_.data.name;
  info.commit = std::string(build_commit());
  info.seed = static_cast<std::uint64_t>(config_.train.seed);
  info.training_samples = sampler_.samples_per_epoch();
  info.total_samples = total_samples_;
  info.epochs = static_cast<double>(total_samples_) / static_cast<double>(info.training_samples);
  info.first_step = progress_.step;
  return info;
}

double TrainingLoop::epoch_now() const {
  return static_cast<double>(progress_.samples) / static_cast<double>(sampler_.samples_per_epoch());
}

/// In samples; where steps are counted, those of as many steps of the first plan, so that a batch
/// that grows does not come to the end of the schedule before the run does.
std::int64_t TrainingLoop::schedule_position() const {
  const std::int64_t steps = config_.train.steps;
  if (steps == 0) return progress_.samples;
  const std::int64_t a_step = total_samples_ / steps;  // no product of the two totals: it overflows
  return a_step * progress_.step + total_samples_ % steps * progress_.step / steps;
}

bool TrainingLoop::finished() const {
  if (progress_.stopped_early) return true;
  return config_.train.steps > 0 ? progress_.step >= config_.train.steps
                                 : progress_.samples >= total_samples_;
}

RunSummary TrainingLoop::run() {
  for (Sink* sink : hooks_.sinks) sink->start(info());
  note(engine_.take_notices());
  follow_budget();
  engine_.start();
  profile_activations(/*first=*/true);
  tell_plan();
  engine_.take_peak();  // of setting up
  seconds_before_ = progress_.seconds;
  session_.restart();
  interval_.restart();
  while (!finished()) {
    watchdog_.enter("step");
    const std::int64_t epoch = sampler_.epoch();
    one_step();
    const Due due = due_after_step(sampler_.epoch() != epoch);
    if (due.decide) follow_budget();
    if (!due.report && !due.decide && !due.save && !finished()) continue;
    if (!report_interval(due)) continue;              // rolled back
    if (due.decide && !decide_next_plan()) continue;  // likewise
    if (due.end_of_epoch) end_epoch();
    if (finished()) break;  // saved below, once evaluated
    // Weights that are of no use must not replace those to restore.
    if (due.save && (due.stop || !weights_astray_)) save();
    if (due.stop) return summary("stopped", {});
  }
  // Where samples are held out they alone choose; a run that stopped early has just seen them.
  if (engine_.has_validation() && !progress_.stopped_early) evaluate_split(/*validation=*/true);
  const EvaluationReport last = evaluate_split(/*validation=*/false);
  save();
  if (!std::isfinite(last.loss))
    throw NumericalFailure(text("[train] the loss on the test set is not finite after step ",
                                progress_.step, "; lower --lr, or look at the data"));
  RunSummary result = summary("finished", last);
  if (progress_.stopped_early)
    result.reason =
        text("early stopping: no lower loss in ", config_.train.patience, " evaluations");
  return result;
}

TrainingLoop::Due TrainingLoop::due_after_step(bool end_of_epoch) const {
  const std::int64_t step = progress_.step;
  const std::int64_t every = config_.run.checkpoint_every;
  const std::int64_t skips = engine_.skips_so_far();
  const bool skipping = step == progress_.decide_again_at || skips == kSkipsToAnswer;
  Due due{.end_of_epoch = end_of_epoch,
          .stop = hooks_.stop_requested && hooks_.stop_requested(),
          .save = every > 0 ? step % every == 0 : end_of_epoch,
          .probe = control_.probe_due(step),
          .report = skips == 1};
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
  if (config_.train.steps == 0) left = std::min(left, total_samples_ - progress_.samples);
  const std::int64_t wanted = engine_.samples_of_step(plan_, left);
  const StepPosition at{
      .step = progress_.step, .scheduled_samples = schedule_position(), .epoch = epoch_now()};
  for (std::int64_t failures = 0;;) {  // since passes could be made smaller
    try {
      engine_.run(plan_, sampler_, wanted, at);
      break;
    } catch (const OutOfMemory& error) {
      const std::int64_t pass = plan_.micro_batch_size;
      shrink_after(error, wanted, ++failures);
      if (plan_.micro_batch_size < pass) failures = 0;
    }
  }
  sampler_.take(wanted);
  progress_.step += 1;
  progress_.samples += wanted;
  interval_steps_ += 1;
  interval_samples_ += wanted;
  interval_largest_ = std::max(interval_largest_, wanted);
}

void TrainingLoop::shrink_after(const OutOfMemory& error, std::int64_t samples,
                                std::int64_t failures) {
  const auto smaller = control_.out_of_memory(plan_);
  const std::int64_t limit = engine_.info().budget_bytes;
  if (!smaller && failures >= kMostTries)
    throw OutOfMemory(text("[train] the smallest forward pass does not fit in ",
                           limit > 0 ? text("the budget of ", byte_text(limit)) : "memory", ": ",
                           error.what(), "; ", memory_advice(config_.train.method, limit > 0)));
  if (smaller) change_plan(*smaller);
  ++interval_retries_;
  note(text("out of memory: repeating the step on the same ", samples, " samples, ",
            plan_.micro_batch_size, " per pass"));
}

std::optional<CurvatureReport> TrainingLoop::probe_curvature() {
  const Stopwatch watch;
  watchdog_.enter("curvature probe");
  std::optional<CurvatureReport> report = engine_.probe_curvature(sampler_, progress_.step);
  start_new_peak();
  progress_.control_seconds += watch.seconds();
  return report;
}

StepReport TrainingLoop::interval_report() {
  engine_.wait();  // waiting for steps to end is training, reading them is control
  const Stopwatch watch;
  StepReport report = engine_.collect();
  progress_.control_seconds += watch.seconds();
  report.step = progress_.step;
  report.samples = progress_.samples;
  report.epoch = epoch_now();
  report.progress = static_cast<double>(schedule_position()) / static_cast<double>(total_samples_);
  report.interval_steps = std::exchange(interval_steps_, 0);
  report.interval_samples = std::exchange(interval_samples_, 0);
  report.largest_step = std::exchange(interval_largest_, 0);
  report.memory_retries = std::exchange(interval_retries_, 0);
  if (ActivationPolicy* activations = control_.activations()) activations->complete(report);
  report.seconds = interval_.restart() - std::exchange(seconds_not_training_, 0);
  return report;
}

bool TrainingLoop::report_interval(const Due& due) {
  StepReport report = interval_report();
  watchdog_.alive();
  start_new_peak();
  if (due.decide) report.curvature = engine_.probed();
  // A probe of weights that just gave no finite gradient says nothing.
  if (due.probe && report.consecutive_skips == 0)
    if (auto found = probe_curvature()) report.curvature = std::move(found);
  if (report.curvature) {
    progress_.curvature_probes += report.curvature->skipped.empty();
    if (!report.curvature->skipped.empty())
      note("curvature probe skipped: " + report.curvature->skipped);
  }
  progress_.epoch_seconds += report.seconds;
  progress_.seconds = seconds_before_ + session_.seconds();
  progress_.skipped_steps += report.skipped_steps;
  progress_.memory_retries += report.memory_retries;
  progress_.largest_batch = std::max(progress_.largest_batch, plan_.batch_size);
  for (Sink* sink : hooks_.sinks) sink->interval(report, plan_);
  const bool sound = is_sound(report, due.save || due.end_of_epoch || finished());
  start_new_peak();
  if (sound) pending_.add(report);
  return sound;
}

bool TrainingLoop::decide_next_plan() {
  const Stopwatch watch;
  const StepReport report = pending_.take();
  Decision decision = control_.next(report, plan_);
  progress_.decide_again_at =
      report.consecutive_skips > 0 ? progress_.step + kStepsWhileSkipping : 0;
  // As long as a layer can still be lifted, that may mend it.
  if (report.consecutive_skips >= kMostSkipsInARow && !lifts_a_layer(plan_, decision.plan)) {
    if (!weights_astray_) give_up(report);
    roll_back(text(report.consecutive_skips, " steps in a row were skipped", last_skips_));
    return false;
  }
  note(decision.events);
  note(engine_.take_notices());
  change_plan(std::move(decision.plan));
  profile_activations(/*first=*/false);
  progress_.control_seconds += watch.seconds();
  return true;
}

void TrainingLoop::profile_activations(bool first) {
  Decision decision{.plan = plan_, .profile = control_.profile_due(progress_.step, plan_, first)};
  if (!decision.profile) return;
  // At an epoch's end there are too few samples.
  if (!first && std::ssize(sampler_.upcoming(kProfileSamples)) < kProfileSamples) return;
  try {
    while (decision.profile) {
      const ActivationProfile found = engine_.profile(*decision.profile, decision.plan, sampler_);
      decision = control_.after_profile(found, std::move(decision));
    }
  } catch (const OutOfMemory& error) {
    if (first) throw;
    control_.postpone_profile(progress_.step);
    decision.events.push_back(text(
        "could not profile activations; keeping the current compression plan: ", error.what()));
  }
  // What the profile took counts for the run, but not for how a batch's memory grows.
  engine_.release_cache();
  start_new_peak();
  note(decision.events);
  if (first)
    plan_ = std::move(decision.plan);
  else
    change_plan(std::move(decision.plan));
}

void TrainingLoop::change_plan(StepPlan next) {
  if (next == plan_) return;
  if (shape_hash(next) != shape_hash(plan_)) {
    ++progress_.plan_changes;
    // Blocks kept for other sizes would count as taken, and the next peak with them; captured steps
    // of smaller passes lie in what those of larger ones need.
    if (next.micro_batch_size < plan_.micro_batch_size) engine_.drop_captured();
    engine_.release_cache();
    start_new_peak();
  }
  plan_ = std::move(next);
  tell_plan();
}

void TrainingLoop::follow_budget() {
  if (!hooks_.budget) return;
  try {
    if (const std::optional<Budget> wanted = hooks_.budget()) note(engine_.set_budget(*wanted));
  } catch (const UsageError& error) {
    note(error.what());
  }
}

void TrainingLoop::tell_plan() {
  for (Sink* sink : hooks_.sinks) sink->plan(progress_.step, plan_);
}

bool TrainingLoop::is_sound(const StepReport& report, bool check_weights) {
  if (report.skipped_steps == 0) {
    weights_astray_ = false;
    if (!check_weights) return true;
    // The last update itself may have gone wrong; what is evaluated and saved must be numbers.
    const Diagnosis found = engine_.diagnose(plan_, /*with_samples=*/false);
    if (!found.tensors.empty()) roll_back("'" + found.tensors.front() + "' is no longer finite");
    return found.tensors.empty();
  }
  const std::string layer =
      report.skipped_layer < 0
          ? ""
          : text(" (layer '",
                 engine_.info().layer_names[static_cast<std::size_t>(report.skipped_layer)], "')");
  // A dynamic loss scale overflows now and then by design, and only the weights are checked.
  const bool expected = engine_.scales_loss() && report.consecutive_skips < kMostSkipsInARow;
  const Diagnosis found = engine_.diagnose(plan_, /*with_samples=*/!expected);
  last_skips_ = text(layer, ": ", found.text());
  weights_astray_ = found.weights_astray();
  if (!expected || !found.tensors.empty())
    note(text(report.skipped_steps, report.skipped_steps == 1 ? " step" : " steps", " up to step ",
              report.step, " skipped for gradients that are not finite", last_skips_));
  if (!found.tensors.empty()) {
    roll_back(found.text());
    return false;
  }
  if (finished() && weights_astray_) {  // such a run has not trained anything
    roll_back(text(report.consecutive_skips, " steps in a row were skipped", last_skips_));
    return false;
  }
  if (finished() && report.consecutive_skips >= kMostSkipsInARow) give_up(report);
  return true;
}

void TrainingLoop::give_up(const StepReport& report) const {
  throw NumericalFailure(text("[train] the gradients of ", report.consecutive_skips,
                              " steps in a row were not finite (step ", report.step, ")",
                              last_skips_, "; lower --lr or check the data"));
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
             "; lower --lr", control_.activations() != nullptr ? " or --activation-ratio" : ""));
  ++progress_.rollbacks;
  const RunProgress before = progress_;
  restore(*checkpoint);
  progress_.keep_costs_of(before);
  ++rollbacks_to_checkpoint_;
  tell_plan();
  note(text("rolled back to step ", progress_.step, ", the last checkpoint: ", why));
  Decision careful = control_.after_rollback(progress_.step, plan_);
  note(careful.events);
  change_plan(std::move(careful.plan));
}

void TrainingLoop::end_epoch() {
  progress_.finish_epoch();
  if (finished()) return;  // the last evaluation follows anyway
  const bool validation = engine_.has_validation();
  const EvaluationReport report = evaluate_split(validation);
  // The test set must not steer.
  note(control_.after_epoch(validation ? 100 * report.accuracy : kUnmeasured));
  progress_.stopped_early = progress_.early_stopping.should_stop_after(report.loss);
}

EvaluationReport TrainingLoop::evaluate_split(bool validation) {
  watchdog_.enter("evaluation");
  const Stopwatch watch;
  EvaluationReport report = engine_.evaluate(validation, plan_, [this] { watchdog_.alive(); });
  report.step = progress_.step;
  report.epoch = epoch_now();
  report.split = validation ? "validation" : "test";
  start_new_peak();
  seconds_not_training_ += watch.seconds();
  if (validation == engine_.has_validation())
    progress_.best_accuracy = std::max(progress_.best_accuracy, report.accuracy);
  for (Sink* sink : hooks_.sinks) sink->evaluation(report);
  return report;
}

void TrainingLoop::start_new_peak() {
  const MemoryReport memory = engine_.take_peak();
  progress_.peak_bytes = std::max(progress_.peak_bytes, memory.peak);
  progress_.peak_reserved_bytes = std::max(progress_.peak_reserved_bytes, memory.reserved);
}

void TrainingLoop::note(const std::string& message) {
  for (Sink* sink : hooks_.sinks) sink->notice(message);
}

void TrainingLoop::note(const std::vector<std::string>& messages) {
  for (const std::string& message : messages) note(message);
}

RunSummary TrainingLoop::summary(std::string status,
                                 const std::optional<EvaluationReport>& last) const {
  RunSummary summary = run_summary(config_, info(), progress_, plan_, control_.activations(),
                                   std::move(status), last);
  engine_.complete(summary);
  summary.score = efficiency_score(summary);
  return summary;
}

void TrainingLoop::save() {
  if (store_ == nullptr) return;
  watchdog_.enter("save");
  progress_.seconds = seconds_before_ + session_.seconds();
  const Stopwatch watch;
  start_new_peak();
  std::vector<StateView> state = plan_state(plan_);
  for (const Stateful* part :
       std::initializer_list<const Stateful*>{&progress_, &sampler_, &control_, &pending_})
    std::ranges::move(part->state(), std::back_inserter(state));
  const SavedCheckpoint saved = engine_.save(*store_,
                                             {.step = progress_.step,
                                              .config_hash = config_hash(config_),
                                              .commit = std::string(build_commit()),
                                              .torch_version = TORCH_VERSION},
                                             std::move(state));
  rollbacks_to_checkpoint_ = 0;
  note(saved.notices);
  seconds_not_training_ += watch.seconds();
}

void TrainingLoop::restore(const LoadedCheckpoint& checkpoint) {
  const std::uint64_t hash = checkpoint.info.config_hash;
  const bool extended =
      hash != config_hash(config_) && std::ranges::count(config_.run.earlier_hashes, hash) > 0;
  if (!extended && hash != config_hash(config_))
    throw StorageError(text("the checkpoint of step ", checkpoint.info.step,
                            " was made under another configuration than this run's config.toml; "
                            "was that file edited?"));
  const StateMap& trainer = file_of(checkpoint, kTrainerFile);
  // Checkpoints of integer runs before version 0.2 have no plan: theirs never changes.
  const bool has_plan = holds_plan(trainer);
  if (has_plan) plan_ = plan_from(trainer, std::ssize(plan_.layers));
  engine_.restore(checkpoint, plan_);
  progress_.restore(trainer);
  sampler_.restore(trainer);
  if (has_plan) {
    control_.restore(trainer);
    pending_.restore(trainer);
  }
  if (extended) {  // early stopping applies to the run as long as it was meant to be then
    progress_.stopped_early = false;
    progress_.early_stopping.evaluations_since_best = 0;
  }
  interval_steps_ = interval_samples_ = interval_largest_ = interval_retries_ = 0;
}

}  // namespace triaccel
