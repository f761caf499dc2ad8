#pragma once

#include <filesystem>

#include "triaccel/models/network.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/training_loop.h"

namespace triaccel {

/// Trains a user's own network as `config` says and writes nothing to disk. The network's weights
/// are the trained ones afterwards.
RunSummary train(Network network, RunConfig config, const TrainingHooks& hooks = {});

/// Starts a run in `directory`: configuration, metrics, checkpoints, summary and report. Throws
/// RunLocked when another process works there, UsageError when it holds a run already.
RunSummary start_run(const RunConfig& config, const std::filesystem::path& directory,
                     const TrainingHooks& hooks = {});

/// Goes on with an interrupted run from its newest sound checkpoint, or from the start when it was
/// cut before the first. The result is the same, byte for byte, as without the interruption (on a
/// GPU under train.deterministic).
RunSummary resume_run(const std::filesystem::path& directory, const TrainingHooks& hooks = {});

/// Whether a run has come to its end.
bool is_finished(const std::filesystem::path& directory);

/// The trained network of a run on its test set.
EvaluationReport evaluate_run(const std::filesystem::path& directory);

}  // namespace triaccel
