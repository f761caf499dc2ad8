#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "triaccel/telemetry/records/metrics_record.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// The records in a run directory.
struct RunRecord {
  std::string name = {};  // of the run in reports
  RunMetrics metrics = {};
  std::optional<RunSummary> summary = {};
  std::string config = {};  // text of config.toml
};

/// Reads metrics.jsonl, summary.json and config.toml of a run directory. A missing file leaves its
/// part empty; a damaged one throws StorageError.
RunRecord read_run_record(const std::filesystem::path& run_directory,
                          const MetricsReadOptions& reading = {});

/// The result of the run: its summary or, if there is none yet or it says "running", the values of
/// its last interval and evaluation, with NaN for anything not measured and the status "running",
/// or "unfinished" without a summary.
RunSummary outcome_of(const RunRecord& run);

}  // namespace triaccel
