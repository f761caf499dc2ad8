#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "triaccel/telemetry/records/metrics_reader.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// All that a run directory tells about its run.
struct RunRecord {
  std::string name = {};  // as the report calls the run
  RunMetrics metrics = {};
  std::optional<RunSummary> summary = {};
  std::string config = {};  // text of config.toml
};

/// Reads metrics.jsonl, summary.json and config.toml of a run directory. A file that is missing
/// leaves its part empty; one that is damaged throws StorageError.
RunRecord read_run_record(const std::filesystem::path& run_directory);

/// What the run came to: its summary or, where it has none (it goes on, or was killed), what its
/// last interval and evaluation say, with the status "unfinished" and NaN for what was never
/// measured.
RunSummary outcome_of(const RunRecord& run);

}  // namespace triaccel
