#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "triaccel/int8/training/state.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

struct TrainingHooks;

// Names inside the directory of an integer run.
inline constexpr const char* kInt8WeightsFile = "weights.safetensors";  // as save_int8_weights
inline constexpr const char* kSlopesFile = "slopes.i8";  // int8::StepReport::slope, a byte a step

/// Trains in a directory that this process holds, as a new run where it holds none; goes on from a
/// checkpoint when there is one. Leaves what every run leaves, and the two files above.
RunSummary train_int8_in(const std::filesystem::path& directory, const RunConfig& config,
                         const TrainingHooks& hooks);

/// The trained network of such a run on its test set.
EvaluationReport evaluate_int8_run(const std::filesystem::path& directory, const RunConfig& config);

/// The weights in config.model.init_from, or the first ones, on the test set; nothing is trained.
EvaluationReport evaluate_int8_weights(const RunConfig& config);

/// The slopes of a run, a byte a step. Throws StorageError.
std::vector<std::int8_t> read_slopes(const std::filesystem::path& run_directory);

/// Does to a run's first weights what its steps did to the layers that train by the loss alone:
/// they end with the same bits, from configuration and slopes. Layers that backpropagate keep their
/// first weights.
void redo_int8(int8::State& first, const RunConfig& config, std::int64_t samples_per_epoch,
               std::span<const std::int8_t> slopes);

}  // namespace triaccel
