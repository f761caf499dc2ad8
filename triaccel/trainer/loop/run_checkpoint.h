#pragma once

#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/data/sampler.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/pending_interval.h"
#include "triaccel/trainer/loop/run_control.h"
#include "triaccel/trainer/loop/run_parts.h"
#include "triaccel/trainer/loop/run_progress.h"

namespace triaccel {

inline constexpr const char* kWeightsFile = "weights.safetensors";      // a plain state_dict
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";  // and loss scale, average
inline constexpr const char* kTrainerFile = "trainer.safetensors";  // counters, order, generators

/// Everything an exact resume needs.
struct RunState {
  RunParts& parts;
  Sampler& sampler;
  RunProgress& progress;
  RunControl& control;
  PendingInterval& pending;
  StepPlan& plan;  // in force
};

SavedCheckpoint save_run(CheckpointStore& store, const RunConfig& config, const RunState& run);

/// Puts all of it back. Throws StorageError when the checkpoint was made under a configuration
/// that trains something else.
void restore_run(const LoadedCheckpoint& checkpoint, const RunConfig& config, const RunState& run);

}  // namespace triaccel
