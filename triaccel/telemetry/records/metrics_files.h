#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/metrics_record.h"
#include "triaccel/telemetry/records/plan_record.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

inline constexpr const char* kMetricsJsonl = "metrics.jsonl";
inline constexpr const char* kMetricsCsv = "metrics.csv";

struct MetricsFilesOptions {
  /// Negative: a new run, existing files are replaced. Otherwise the run resumes after this many
  /// steps: later records and an incomplete last line are dropped.
  std::int64_t resume_after_step = -1;
  // Told of lines that cannot be read, which are then dropped, too.
  std::function<void(const std::string& problem)> warn = {};
};

/// Writes metrics.jsonl (everything, one JSON object per line), metrics.csv (one row per interval
/// or evaluation) and plans.jsonl (one line per plan change) to a run directory. Each line is
/// written at once with a single write, so that a killed process loses none. Throws StorageError
/// naming the file.
class MetricsFiles final : public Sink {
 public:
  MetricsFiles(const std::filesystem::path& directory, const MetricsFilesOptions& options);

  void start(const RunInfo& info) override;
  void plan(std::int64_t step, const StepPlan& plan) override;
  void interval(const StepReport& report, const StepPlan& plan) override;
  void evaluation(const EvaluationReport& report) override;
  void notice(const std::string& message) override;
  void finish(const RunSummary& summary) override;

 private:
  void write(const MetricsRecord& record);
  void write_plan(std::int64_t step, const StepPlan& plan);

  std::optional<ScheduledPlan> last_plan_;  // last line of plans.jsonl
  AppendedFile jsonl_;
  AppendedFile csv_;
  AppendedFile plans_;
  bool plans_announced_ = false;  // false: plans are taken from the intervals
  std::int64_t step_ = 0;         // of the last record
};

}  // namespace triaccel
