#pragma once

#include <filesystem>
#include <vector>

#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

// Names inside a run directory.
inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kReplayedPlansFile = "replayed_plans.jsonl";
inline constexpr const char* kReportFile = "report.html";
inline constexpr const char* kCheckpointFolder = "checkpoints";

/// Where a new run goes: config.run.out, or the first of runs/<name>, runs/<name>-2, … that holds
/// no run yet.
std::filesystem::path new_run_directory(const RunConfig& config);

/// Whether a directory holds a run, finished or not.
bool holds_run(const std::filesystem::path& directory);

/// Reads the configuration a run was started with. Throws UsageError when there is no run.
RunConfig read_run_config(const std::filesystem::path& directory);

/// Writes config.toml, all or nothing.
void write_run_config(const std::filesystem::path& directory, const RunConfig& config);

/// Copies the plans that config.control.replay names into the run directory and lets it name the
/// copy: a run goes on wherever it is moved and whatever becomes of the recorded one.
void keep_replayed_plans(const std::filesystem::path& directory, RunConfig& config);

/// The run directories below `root`, at most two folders down, by name.
std::vector<std::filesystem::path> list_runs(const std::filesystem::path& root);

}  // namespace triaccel
