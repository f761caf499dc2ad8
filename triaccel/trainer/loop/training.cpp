#include "triaccel/trainer/loop/training.h"

#include <optional>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/checkpoint/run_lock.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/telemetry/records/metrics_files.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/report/html_report.h"
#include "triaccel/trainer/int8/int8_engine.h"
#include "triaccel/trainer/loop/network_state.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/torch_engine.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// Trains in a directory that this process holds; from a checkpoint when there is one.
RunSummary train_in(const fs::path& directory, const RunConfig& config, StepEngine& engine,
                    const TrainingHooks& hooks) {
  CheckpointStore store(directory / kCheckpointFolder, static_cast<int>(config.run.keep));
  TrainingHooks with_files = hooks;
  TrainingLoop loop(config, engine, with_files, &store);
  const std::optional<LoadedCheckpoint> checkpoint = store.load_latest();
  if (checkpoint) loop.restore(*checkpoint);
  MetricsFiles files(directory, {.resume_after_step = checkpoint ? loop.step() : -1});
  const std::unique_ptr<Sink> engine_files = engine.files_in(directory);
  with_files.sinks.insert(with_files.sinks.end(), {&files, engine_files.get()});
  if (checkpoint)
    for (const std::string& message : checkpoint->notices)
      for (Sink* sink : with_files.sinks) sink->notice(message);
  const RunSummary summary = loop.run();
  engine_files->finish(summary);
  with_files.sinks.pop_back();
  write_summary(directory / kSummaryFile, summary);
  for (Sink* sink : with_files.sinks) sink->finish(summary);
  const std::vector<RunRecord> records = {read_run_record(directory)};
  write_html_report(directory / kReportFile, records, config.run.name);
  return summary;
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

}  // namespace

std::unique_ptr<StepEngine> make_engine(const RunConfig& config) {
  if (trains_in_integers(config)) return std::make_unique<Int8Engine>(config);
  return std::make_unique<TorchEngine>(config);
}

RunSummary train(Network network, RunConfig config, const TrainingHooks& hooks) {
  config.model.name = "own";
  config = resolved(std::move(config));
  RunParts parts(config, std::move(network));
  TorchEngine engine(config, parts);
  const RunSummary summary = TrainingLoop(config, engine, hooks, nullptr).run();
  for (Sink* sink : hooks.sinks) sink->finish(summary);
  return summary;
}

RunSummary start_run(const RunConfig& config, const fs::path& directory,
                     const TrainingHooks& hooks) {
  RunConfig complete = resolved(config);
  complete.data.root = from_anywhere(complete.data.root);
  complete.model.init_from = from_anywhere(complete.model.init_from);
  const RunLock lock(directory);
  require(!holds_run(directory), "--out", "'", directory.string(),
          "' holds a run already; go on with it by 'triaccel resume ", directory.string(),
          "', or choose another folder");
  // Before anything is written: a wrong path must not leave a run behind.
  const std::unique_ptr<StepEngine> engine = make_engine(complete);
  engine->record_choices(complete);
  keep_replayed_plans(directory, complete);
  write_run_config(directory, complete);
  return train_in(directory, complete, *engine, hooks);
}

bool is_finished(const fs::path& directory) {
  return fs::exists(directory / kSummaryFile) &&
         read_summary(directory / kSummaryFile).status != "interrupted";
}

RunSummary resume_run(const fs::path& directory, const TrainingHooks& hooks) {
  const RunConfig config = config_to_go_on(directory);
  // Before the lock: several processes may ask what a finished run came to.
  if (is_finished(directory)) return read_summary(directory / kSummaryFile);
  const RunLock lock(directory);
  return train_in(directory, config, *make_engine(config), hooks);
}

EvaluationReport evaluate_run(const fs::path& directory) {
  RunConfig config = read_run_config(directory);
  config.control.replay.clear();  // the plan of the checkpoint counts
  config.model.init_from.clear();
  config = resolved(config);
  const auto checkpoint = CheckpointStore(directory / kCheckpointFolder).load_latest();
  require(checkpoint.has_value(), "eval", "'", directory.string(),
          "' has no checkpoint yet; let it train, or 'triaccel resume' it");
  const std::unique_ptr<StepEngine> engine = make_engine(config);
  const StateMap& trainer = file_of(*checkpoint, kTrainerFile);
  const StepPlan plan = holds_plan(trainer)
                            ? plan_from(trainer, std::ssize(engine->info().layer_names))
                            : engine->control_setup().plan;
  engine->restore(*checkpoint, plan);
  EvaluationReport report = engine->evaluate(/*validation=*/false, plan, {});
  report.step = checkpoint->info.step;
  return report;
}

EvaluationReport evaluate_weights(const RunConfig& config) {
  const RunConfig complete = resolved(config);
  const std::unique_ptr<StepEngine> engine = make_engine(complete);
  return engine->evaluate(/*validation=*/false, engine->control_setup().plan, {});
}

void redo_zeroth_order(const Network& network, const RunConfig& config,
                       std::span<const ZerothOrderStep> steps) {
  require(config.train.method == TrainMethod::Zo, "redo_zeroth_order", "method '",
          config.train.method, "' trains layers by backpropagation, which its slopes do not tell");
  ZerothOrder zeroth(zeroth_order_options(config), parameters_of(network));
  zeroth.follow({static_cast<std::size_t>(network.layers.size()),
                 LayerPlan{.gradient = GradientSource::ZerothOrder}});
  for (const ZerothOrderStep& step : steps) zeroth.redo(step);
}

}  // namespace triaccel
