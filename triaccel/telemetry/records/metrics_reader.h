#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "triaccel/telemetry/records/metrics_record.h"

namespace triaccel {

/// The content of metrics.jsonl.
struct RunMetrics {
  RunInfo info = {};  // of the first start
  std::vector<IntervalRecord> intervals = {};
  std::vector<EvaluationReport> evaluations = {};
  std::vector<NoticeRecord> notices = {};
  std::optional<RunSummary> summary = {};  // absent while the run is active, or if it was killed
  bool torn = false;                       // the last line was incomplete and skipped
};

struct MetricsReadOptions {
  std::int64_t max_bytes = std::int64_t{1} << 30;  // of the file
};

/// Reads metrics.jsonl, also while a run is writing it. Skips an incomplete last line and records
/// that a rollback to an earlier step made obsolete. Throws StorageError naming file and line for
/// any other error.
RunMetrics read_metrics(const std::filesystem::path& path, const MetricsReadOptions& options = {});

/// Calls `visit` for every complete line in order, with its record. Returns true if an incomplete
/// last line was skipped.
bool for_each_metrics_line(const std::filesystem::path& path, const MetricsReadOptions& options,
                           const std::function<void(std::string_view, MetricsRecord&)>& visit);

}  // namespace triaccel
