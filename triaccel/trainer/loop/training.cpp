#include "triaccel/trainer/loop/training.h"

#include <optional>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/checkpoint/run_lock.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/data/own_data.h"
#include "triaccel/telemetry/records/metrics_files.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/report/html_report.h"
#include "triaccel/trainer/int8/int8_engine.h"
#include "triaccel/trainer/loop/network_state.h"
#include "triaccel/trainer/loop/run_budget.h"
#include "triaccel/trainer/loop/run_status.h"
#include "triaccel/trainer/loop/torch_engine.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// A run in its directory, built from inputs alone: nothing is written before train().
class FolderRun {
 public:
  FolderRun(fs::path directory, const RunConfig& config, const TrainingHooks& hooks,
            UnderBudget under_budget = UnderBudget::PlanMemory)
      : directory_(std::move(directory)),
        config_(config),
        status_(directory_),
        budget_(directory_, config.device.budget),
        hooks_(with_status(hooks)),
        store_(directory_ / kCheckpointFolder, static_cast<int>(config.run.keep)),
        engine_(make_engine(config, under_budget)),
        loop_(config, *engine_, hooks_, &store_) {}

  StepEngine& engine() { return *engine_; }

  /// Trains, from a checkpoint when there is one; the caller holds the directory.
  RunSummary train(bool resumed);

 private:
  TrainingHooks with_status(TrainingHooks hooks) {
    if (!hooks.budget) hooks.budget = [this] { return budget_.take(); };
    if (hooks.on_hang)
      hooks.on_hang = [this, next = hooks.on_hang](const std::string& section, double seconds) {
        status_.failed_hanging(text("no progress in section '", section, "'"));
        next(section, seconds);
      };
    return hooks;
  }
  RunSummary train_with_files(MetricsFiles& files);

  fs::path directory_;
  const RunConfig& config_;
  RunStatus status_;
  RunBudget budget_;
  TrainingHooks hooks_;
  CheckpointStore store_;
  std::unique_ptr<StepEngine> engine_;
  TrainingLoop loop_;
};

RunSummary FolderRun::train(bool resumed) {
  const std::optional<LoadedCheckpoint> checkpoint = store_.load_latest();
  if (checkpoint) loop_.restore(*checkpoint);
  std::vector<std::string> warnings;
  if (checkpoint) warnings = checkpoint->notices;
  if (resumed && !checkpoint)
    warnings.push_back(text("there is no checkpoint in '", store_.directory().string(),
                            "'; the run starts again at step 0"));
  try {
    MetricsFiles files(directory_, {.resume_after_step = checkpoint ? loop_.step() : -1,
                                    .warn = [&](const auto& what) { warnings.push_back(what); }});
    for (const std::string& warning : warnings) {
      for (Sink* sink : hooks_.sinks) sink->warning(warning);
      files.warning(warning);
    }
    return train_with_files(files);
  } catch (const std::exception& error) {
    status_.failed(error.what());
    throw;
  }
}

RunSummary FolderRun::train_with_files(MetricsFiles& files) {
  const std::unique_ptr<Sink> engine_files = engine_->files_in(directory_);
  hooks_.sinks.insert(hooks_.sinks.end(), {&files, &status_, engine_files.get()});
  const RunSummary summary = loop_.run();
  engine_files->finish(summary);
  hooks_.sinks.pop_back();
  write_summary(directory_ / kSummaryFile, summary);
  for (Sink* sink : hooks_.sinks) sink->finish(summary);
  try {
    const std::vector<RunRecord> records = {read_run_record(directory_)};
    write_html_report(directory_ / kReportFile, records, config_.run.name);
  } catch (const StorageError& error) {  // the run itself has ended well
    for (Sink* sink : hooks_.sinks) sink->warning(text("no report: ", error.what()));
  }
  return summary;
}

void tell(const std::vector<std::string>& notices, const WarningFunction& warn) {
  if (!warn) return;
  for (const std::string& notice : notices) warn(notice);
}

/// The file that --init-from names.
std::string weights_of(const RunConfig& config, const WarningFunction& warn) {
  std::vector<std::string> notices;
  const fs::path file = weights_named(config.model.init_from, notices);
  tell(notices, warn);
  return file.string();
}

/// Where a path leads from anywhere; "" stays "".
std::string from_anywhere(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

/// The configuration of a run as it goes on: once there is a checkpoint, the weights it started
/// from may be gone.
RunConfig config_to_go_on(const fs::path& directory) {
  RunConfig config = read_run_config(directory);
  if (!CheckpointStore(directory / kCheckpointFolder).steps().empty())
    config.model.init_from.clear();
  return resolved(config);
}

void check_length(const fs::path& directory, const RunLength& length) {
  const RunSummary done = outcome_now(directory);
  if (length.steps != 0)
    require(length.steps > done.steps, "--steps", "must exceed the ", done.steps,
            " steps already done, got ", length.steps);
  else
    require(length.epochs > done.epochs, "--epochs", "must exceed the ", done.epochs,
            " epochs already done, got ", length.epochs);
}

}  // namespace

std::unique_ptr<StepEngine> make_engine(const RunConfig& config, UnderBudget under_budget) {
  if (trains_in_integers(config)) return std::make_unique<Int8Engine>(config);
  return std::make_unique<TorchEngine>(config, under_budget);
}

RunSummary train(Network network, RunConfig config, const TrainingHooks& hooks) {
  return train(std::move(network), OwnTask(), std::move(config), hooks);
}

RunSummary train(Network network, OwnTask task, RunConfig config, const TrainingHooks& hooks) {
  config.model.name = "own";
  if (!task.test) task.test = task.train;
  if (task.loss) config.control.curvature = CurvatureSource::Off;
  config = resolved(std::move(config));
  RunParts parts(config, std::move(network), {}, std::move(task));
  TorchEngine engine(config, parts);
  const RunSummary summary = TrainingLoop(config, engine, hooks, nullptr).run();
  for (Sink* sink : hooks.sinks) sink->finish(summary);
  return summary;
}

RunSummary start_run(const RunConfig& config, const fs::path& directory,
                     const TrainingHooks& hooks) {
  RunConfig complete = resolved(config);
  require_no_files_in_the_way(directory, complete);
  if (is_run_locked(directory)) const RunLock taken(directory);  // throws
  complete.data.root = from_anywhere(complete.data.root);
  if (is_own_data(complete.data.name)) complete.data.name = from_anywhere(complete.data.name);
  complete.model.init_from = from_anywhere(weights_of(complete, [&](const std::string& warning) {
    for (Sink* sink : hooks.sinks) sink->warning(warning);
  }));
  take_replayed_kernels(complete);
  FolderRun run(directory, complete, hooks);  // before anything is written
  const RunLock lock(directory);
  require_no_files_in_the_way(directory, complete);  // another process may have been faster
  run.engine().record_choices(complete);
  keep_replayed_plans(directory, complete);
  write_run_config(directory, complete);
  return run.train(/*resumed=*/false);
}

bool is_finished(const fs::path& directory) {
  return fs::exists(directory / kSummaryFile) &&
         read_summary(directory / kSummaryFile).status == "finished";
}

/// By --patience.
bool has_stopped_early(const fs::path& directory) {
  return is_finished(directory) && !read_summary(directory / kSummaryFile).reason.empty();
}

RunSummary resume_run(const fs::path& directory, const TrainingHooks& hooks,
                      const std::optional<RunLength>& length) {
  RunConfig config = config_to_go_on(directory);
  // Before the lock: several processes may ask what a finished run came to.
  if (!length && is_finished(directory)) return read_summary(directory / kSummaryFile);
  if (length) {
    check_length(directory, *length);
    const std::uint64_t before = config_hash(config);
    config = with_length(std::move(config), *length);
    require(config_hash(config) != before || !has_stopped_early(directory),
            length->steps > 0 ? "--steps" : "--epochs",
            "is the length that the run has, and it stopped early; name a larger one to go on");
  }
  const RunLock lock(directory);
  FolderRun run(directory, config, hooks, UnderBudget::KeepAll);  // planned when it started
  if (length) write_length(directory, config);
  return run.train(/*resumed=*/true);
}

RunConfig trained_config(const fs::path& directory, const ConfigChange& change) {
  RunConfig config = read_run_config(directory);
  config.control.replay.clear();  // the plan of the checkpoint counts
  config.model.init_from.clear();
  return resolved(change ? change(std::move(config)) : std::move(config));
}

TrainedState restore_trained(StepEngine& engine, const fs::path& directory,
                             const WarningFunction& warn) {
  const auto checkpoint = CheckpointStore(directory / kCheckpointFolder).load_latest();
  require(checkpoint.has_value(), "run", "'", directory.string(),
          "' has no checkpoint yet; let it train, or 'triaccel resume' it");
  tell(checkpoint->notices, warn);
  const StateMap& trainer = file_of(*checkpoint, kTrainerFile);
  StepPlan plan = holds_plan(trainer) ? plan_from(trainer, std::ssize(engine.info().layer_names))
                                      : engine.control_setup().plan;
  engine.restore(*checkpoint, plan);
  return {.plan = std::move(plan), .step = checkpoint->info.step};
}

EvaluationReport evaluate_run(const fs::path& directory, const ConfigChange& change,
                              const WarningFunction& warn) {
  const RunConfig config = trained_config(directory, change);
  const std::unique_ptr<StepEngine> engine = make_engine(config, UnderBudget::KeepAll);
  TrainedState trained;
  try {
    trained = restore_trained(*engine, directory, warn);
  } catch (const StorageError& error) {
    (void)CheckpointStore(directory / kCheckpointFolder).load_latest();  // is it damaged?
    const std::string own = read_run_config(directory).data.name;
    require(config.data.name == own, "--data", "'", config.data.name,
            "' does not fit the network of a run on '", own, "': ", error.what());
    throw;
  }
  tell(engine->take_notices(), warn);  // about the data: dropped records, a test set held out of it
  EvaluationReport report = engine->evaluate(/*validation=*/false, trained.plan, {});
  report.step = trained.step;
  return report;
}

EvaluationReport evaluate_weights(const RunConfig& config, const WarningFunction& warn) {
  RunConfig complete = resolved(config);
  complete.model.init_from = weights_of(complete, warn);
  const std::unique_ptr<StepEngine> engine = make_engine(complete, UnderBudget::KeepAll);
  tell(engine->take_notices(), warn);
  return engine->evaluate(/*validation=*/false, engine->control_setup().plan, {});
}

void redo_zeroth_order(const Network& network, const RunConfig& config,
                       std::span<const ZerothOrderStep> steps) {
  require(config.train.method == TrainMethod::Zo, "redo_zeroth_order", "method '",
          config.train.method, "' cannot be replayed: some layers are trained by backpropagation");
  ZerothOrder zeroth(zeroth_order_options(config), parameters_of(network));
  zeroth.follow({static_cast<std::size_t>(network.layers.size()),
                 LayerPlan{.gradient = GradientSource::ZerothOrder}});
  for (const ZerothOrderStep& step : steps) zeroth.redo(step);
}

}  // namespace triaccel
