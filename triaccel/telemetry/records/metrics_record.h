#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "triaccel/telemetry/sink.h"

namespace triaccel {

inline constexpr std::size_t kPrecisions = 4;

/// One control interval as the metrics files hold it.
struct IntervalRecord {
  StepReport report = {};
  std::int64_t batch_size = 0;
  std::int64_t micro_batch_size = 0;
  float learning_rate_scale = 1;                 // of the plan, for every layer
  std::string precisions = {};                   // one letter a layer: see plan_record.h
  std::vector<float> learning_rate_scales = {};  // index = LayerId
  std::array<std::int64_t, kPrecisions> layers_by_precision = {};  // index = Precision
  std::uint64_t plan_hash = 0;
};

struct NoticeRecord {
  std::int64_t step = 0;
  std::string message = {};
};

/// The end of a run, or of a part of one that was interrupted.
struct FinishRecord {
  std::int64_t step = 0;
  RunSummary summary = {};
};

using MetricsRecord =
    std::variant<RunInfo, IntervalRecord, EvaluationReport, NoticeRecord, FinishRecord>;

IntervalRecord interval_record(const StepReport& report, const StepPlan& plan);

/// Optimizer steps done when the record was written.
std::int64_t step_of(const MetricsRecord& record);

/// One line of metrics.jsonl, without its line break. What is not a finite number becomes null.
std::string to_jsonl(const MetricsRecord& record);

/// Reads one line; null becomes NaN, fields this version does not know are passed over. Throws
/// StorageError with `where` in front.
MetricsRecord from_jsonl(std::string_view line, std::string_view where);

/// The header of metrics.csv, and the row of an interval or evaluation; other records have none.
std::string csv_header();
std::optional<std::string> csv_row(const MetricsRecord& record);

}  // namespace triaccel
