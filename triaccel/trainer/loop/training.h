#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "triaccel/core/step_report.h"
#include "triaccel/models/network.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/training_loop.h"

namespace triaccel {

/// The engine for a configuration's method, which must outlive it.
std::unique_ptr<StepEngine> make_engine(const RunConfig& config);

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

/// The weights a run of this configuration would start from (config.model.init_from, or fresh ones)
/// on its test set; nothing is trained or written.
EvaluationReport evaluate_weights(const RunConfig& config);

/// Repeats on a network with a run's first weights what all its steps did, and gives the weights it
/// ended with, bit for bit: of a run of method "zo", from its configuration and its
/// zeroth_order.csv. Running statistics of norms are not repeated.
void redo_zeroth_order(const Network& network, const RunConfig& config,
                       std::span<const ZerothOrderStep> steps);

}  // namespace triaccel
