#include "triaccel/trainer/loop/training.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/checkpoint/run_lock.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/telemetry/records/metrics_files.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/records/zeroth_order_file.h"
#include "triaccel/telemetry/report/html_report.h"
#include "triaccel/trainer/evaluate/evaluator.h"
#include "triaccel/trainer/int8/int8_run.h"
#include "triaccel/trainer/loop/network_state.h"
#include "triaccel/trainer/loop/run_checkpoint.h"
#include "triaccel/trainer/loop/run_directory.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// Trains in a directory that this process holds; from a checkpoint when there is one.
RunSummary train_in(const fs::path& directory, const RunConfig& config, RunParts& parts,
                    const TrainingHooks& hooks) {
  CheckpointStore store(directory / kCheckpointFolder, static_cast<int>(config.run.keep));
  TrainingHooks with_files = hooks;
  TrainingLoop loop(config, parts, with_files, &store);
  std::vector<std::string> notices;
  std::int64_t resume_after_step = -1;
  if (std::optional<LoadedCheckpoint> checkpoint = store.load_latest()) {
    loop.restore(*checkpoint);
    notices = checkpoint->notices;
    resume_after_step = loop.step();
  }
  MetricsFiles files(directory, {.resume_after_step = resume_after_step});
  with_files.sinks.push_back(&files);
  ZerothOrder* const zeroth = parts.runner->zeroth_order();
  ZerothOrderFile slopes(directory, zeroth == nullptr ? 0 : zeroth->steps_done());
  with_files.sinks.push_back(&slopes);
  for (const std::string& message : notices)
    for (Sink* sink : with_files.sinks) sink->notice(message);
  const RunSummary summary = loop.run();
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

RunSummary train(Network network, RunConfig config, const TrainingHooks& hooks) {
  config.model.name = "own";
  config = resolved(std::move(config));
  RunParts parts(config, std::move(network));
  TrainingLoop loop(config, parts, hooks, nullptr);
  const RunSummary summary = loop.run();
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
  if (trains_in_integers(complete)) return train_int8_in(directory, complete, hooks);
  RunParts parts(complete);  // before anything is written: a wrong path must not leave a run behind
  if (parts.method.per_layer) complete.control.kernels = parts.kernels;
  keep_replayed_plans(directory, complete);
  write_run_config(directory, complete);
  return train_in(directory, complete, parts, hooks);
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
  if (trains_in_integers(config)) return train_int8_in(directory, config, hooks);
  RunParts parts(config);
  return train_in(directory, config, parts, hooks);
}

EvaluationReport evaluate_run(const fs::path& directory) {
  RunConfig config = read_run_config(directory);
  config.control.replay.clear();  // the plan of the checkpoint counts
  config.model.init_from.clear();
  config = resolved(config);
  if (trains_in_integers(config)) return evaluate_int8_run(directory, config);
  RunParts parts(config);
  const auto checkpoint = CheckpointStore(directory / kCheckpointFolder).load_latest();
  require(checkpoint.has_value(), "eval", "'", directory.string(),
          "' has no checkpoint yet; let it train, or 'triaccel resume' it");
  const StateMap& weights = checkpoint->files.at(kWeightsFile);
  restore_network(parts.network, weights);
  parts.runner->follow(plan_from(checkpoint->files.at(kTrainerFile), parts.network.layers.size()));
  std::optional<ScopedAverage> averaged;
  if (WeightAverage* average = parts.runner->weight_average()) {
    average->restore(checkpoint->files.at(kOptimizerFile));
    averaged.emplace(*average);
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(parts.data.test->size()));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  EvaluationReport report =
      Evaluator(parts.network, parts.on.device)
          .evaluate(*parts.data.test, ids,
                    {.forward = parts.runner->forward_rules(), .batch = config.train.batch});
  report.step = checkpoint->info.step;
  return report;
}

}  // namespace triaccel
