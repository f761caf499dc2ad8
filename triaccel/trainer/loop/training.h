#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "triaccel/core/step_report.h"
#include "triaccel/models/network.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/evaluate/predict.h"
#include "triaccel/trainer/loop/own_task.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training_loop.h"

namespace triaccel {

/// The engine for a configuration's method, which must outlive it.
std::unique_ptr<StepEngine> make_engine(const RunConfig& config,
                                        UnderBudget under_budget = UnderBudget::PlanMemory);

/// Trains a user's own network as `config` says and writes nothing to disk. The network's weights
/// are the trained ones afterwards.
RunSummary train(Network network, RunConfig config, const TrainingHooks& hooks = {});

/// The same with a data source, loss and metric of the user's own; the metric's mean over the test
/// samples is the summary's accuracy, in per cent. Learning rates do not follow the curvature under
/// a loss of one's own, and its steps are not captured in CUDA graphs.
RunSummary train(Network network, OwnTask task, RunConfig config, const TrainingHooks& hooks = {});

/// Starts a run in `directory`: configuration, metrics, checkpoints, summary and report. Throws
/// RunLocked if another process uses it, UsageError if it already contains a run or files that the
/// run would overwrite. Nothing is created before every input has been read. A run that fails
/// later leaves a summary that says so.
RunSummary start_run(const RunConfig& config, const std::filesystem::path& directory,
                     const TrainingHooks& hooks = {});

/// Resumes an interrupted run from its newest valid checkpoint, or from the start if it has none.
/// The result is the same, byte for byte, as without the interruption (on a GPU with
/// train.deterministic). With a `length` the run, finished or not, continues to it; the learning
/// rate then follows the schedule of that length from where the run is.
RunSummary resume_run(const std::filesystem::path& directory, const TrainingHooks& hooks = {},
                      const std::optional<RunLength>& length = {});

/// Whether a run is finished.
bool is_finished(const std::filesystem::path& directory);

/// The configuration of a run that has a checkpoint, after `change` where there is one.
RunConfig trained_config(const std::filesystem::path& directory, const ConfigChange& change = {});

/// Restores the newest checkpoint of a run in an engine that was made for it.
struct TrainedState {
  StepPlan plan;
  std::int64_t step = 0;
};
TrainedState restore_trained(StepEngine& engine, const std::filesystem::path& directory,
                             const WarningFunction& warn = {});

/// The trained network of a run on its test set; `change` may name other data or another device.
EvaluationReport evaluate_run(const std::filesystem::path& directory,
                              const ConfigChange& change = {}, const WarningFunction& warn = {});

/// The weights a run of this configuration would start from (config.model.init_from, or fresh ones)
/// on its test set; nothing is trained or written.
EvaluationReport evaluate_weights(const RunConfig& config, const WarningFunction& warn = {});

/// Replays all steps of a run of method "zo" from its initial weights, its configuration and its
/// zeroth_order.csv. The weights end bit for bit as those of the run; running statistics of norms
/// are not replayed.
void redo_zeroth_order(const Network& network, const RunConfig& config,
                       std::span<const ZerothOrderStep> steps);

}  // namespace triaccel
