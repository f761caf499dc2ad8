#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/int8/training/state.h"

namespace triaccel {

// Names inside the folder of a run.
inline constexpr const char* kInt8WeightsFile = "weights.safetensors";  // as save_int8_weights
inline constexpr const char* kSlopesFile = "slopes.i8";  // int8::StepReport::slope, a byte per step

/// The weights of integer layers as tensors: "<layer>.weight", int8, channel last.
std::vector<StateView> int8_weight_views(std::span<const int8::NamedWeights> weights);

/// Writes them to a safetensors file; its metadata holds "<layer>.exponent": the value of a weight
/// is mantissa · 2^exponent.
void save_int8_weights(const std::filesystem::path& file, const int8::State& state);

/// Takes weights from such a file. Throws DataError naming the file and what it lacks.
void load_int8_weights(int8::State& state, const std::filesystem::path& file);

/// All of a state, for a checkpoint, and back; StorageError where it is another network's.
std::vector<StateView> int8_state_views(const int8::State& state);
void restore_int8_state(int8::State& state, const StateMap& saved);

}  // namespace triaccel
