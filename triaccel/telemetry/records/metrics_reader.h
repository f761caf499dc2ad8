#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "triaccel/telemetry/records/metrics_record.h"

namespace triaccel {

/// Everything metrics.jsonl tells about a run.
struct RunMetrics {
  RunInfo info = {};  // of the run's first start
  std::vector<IntervalRecord> intervals = {};
  std::vector<EvaluationReport> evaluations = {};
  std::vector<NoticeRecord> notices = {};
  std::optional<RunSummary> summary = {};  // absent while the run goes on, or when it was killed
  bool torn = false;                       // the last line was cut short and left out
};

struct MetricsReadOptions {
  std::int64_t max_bytes = std::int64_t{1} << 30;  // of the file
};

/// Reads metrics.jsonl, also while a run writes it: a last line that was cut short is left out, as
/// is what a run measured before it went back to an earlier step and did it again.
/// Throws StorageError naming file and line for anything else that is wrong.
RunMetrics read_metrics(const std::filesystem::path& path, const MetricsReadOptions& options = {});

/// Calls `visit` for every complete line in order, with the record read from it. True when a torn
/// last line was left out.
bool for_each_metrics_line(const std::filesystem::path& path, const MetricsReadOptions& options,
                           const std::function<void(std::string_view, MetricsRecord&)>& visit);

}  // namespace triaccel
