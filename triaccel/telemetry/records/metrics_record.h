#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "triaccel/telemetry/sink.h"

namespace triaccel {

inline constexpr std::size_t kPrecisions = 4;

/// One control interval in the metrics files.
struct IntervalRecord {
  StepReport report = {};
  std::int64_t batch_size = 0;
  std::int64_t micro_batch_size = 0;
  float learning_rate_scale = 1;                 // of the plan, for all layers
  std::string precisions = {};                   // one letter per layer: see plan_record.h
  std::vector<float> learning_rate_scales = {};  // index = LayerId
  std::array<std::int64_t, kPrecisions> layers_by_precision = {};  // index = Precision
  std::uint64_t plan_hash = 0;
};

struct NoticeRecord {
  std::int64_t step = 0;
  std::string message = {};
};

/// The end of a run or of an interrupted session.
struct FinishRecord {
  std::int64_t step = 0;
  RunSummary summary = {};
};

using MetricsRecord =
    std::variant<RunInfo, IntervalRecord, EvaluationReport, NoticeRecord, FinishRecord>;

IntervalRecord interval_record(const StepReport& report, const StepPlan& plan);

/// Optimizer steps done when the record was written.
std::int64_t step_of(const MetricsRecord& record);

/// One line of metrics.jsonl, without its line break. Non-finite numbers become null.
std::string to_jsonl(const MetricsRecord& record);

/// Reads one line; null becomes NaN, unknown fields are ignored. Throws StorageError prefixed with
/// `where`.
MetricsRecord from_jsonl(std::string_view line, std::string_view where);

/// The header of metrics.csv, and the row of an interval or evaluation (nothing for other records).
std::string csv_header();
std::optional<std::string> csv_row(const MetricsRecord& record);

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
  // Given what is wrong with a line, which is then passed over; empty: StorageError.
  std::function<void(const std::string& problem)> on_damage = {};
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
