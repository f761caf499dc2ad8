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

/// Throws UsageError where a new run in this directory would write over something: another run, or
/// files of the user.
void require_no_files_in_the_way(const std::filesystem::path& directory, const RunConfig& config);

/// The weights that --init-from names: a file, or those of the newest whole checkpoint of a run;
/// `notices` name newer ones that are damaged.
std::filesystem::path weights_named(const std::filesystem::path& path,
                                    std::vector<std::string>& notices);

/// Reads the configuration a run was started with. Throws UsageError when there is no run.
RunConfig read_run_config(const std::filesystem::path& directory);

/// A new length of a run, counted from its start.
struct RunLength {
  double epochs = 0;
  std::int64_t steps = 0;  // > 0: instead of epochs
};

/// The configuration of a run with another length; checkpoints of the earlier one stay valid.
RunConfig with_length(RunConfig config, const RunLength& length);

/// Writes what with_length() changed into the run's files.
void write_length(const std::filesystem::path& directory, const RunConfig& config);

/// Writes config.toml, all or nothing.
void write_run_config(const std::filesystem::path& directory, const RunConfig& config);

/// Copies the plans that config.control.replay names into the run directory and lets it name the
/// copy: a run continues wherever it is moved, even if the recorded one is deleted.
void keep_replayed_plans(const std::filesystem::path& directory, RunConfig& config);

/// Where the replayed plans lie next to the configuration of their run, and --kernels is not given:
/// the kernels of that run, without which the same plans give other bits.
void take_replayed_kernels(RunConfig& config);

/// The run directories below `root`, at most two folders down, by name.
std::vector<std::filesystem::path> list_runs(const std::filesystem::path& root);

}  // namespace triaccel
