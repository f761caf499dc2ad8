#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/metrics_record.h"
#include "triaccel/telemetry/records/plan_record.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

inline constexpr const char* kMetricsJsonl = "metrics.jsonl";
inline constexpr const char* kMetricsCsv = "metrics.csv";

struct MetricsFilesOptions {
  /// Negative: a new run, old files are replaced. Otherwise the run goes on after this many steps:
  /// complete lines up to it are kept, later ones and a torn last line are dropped.
  std::int64_t resume_after_step = -1;
};

/// Writes metrics.jsonl (everything, one JSON object a line), metrics.csv (one row an interval or
/// evaluation) and plans.jsonl (a line a change of plan) in a run directory. Each line reaches the
/// operating system in one write as soon as it is known, so that a killed process loses none.
/// Throws StorageError naming the file.
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

  std::optional<ScheduledPlan> last_plan_;  // the line plans.jsonl ends with
  AppendedFile jsonl_;
  AppendedFile csv_;
  AppendedFile plans_;
  bool told_of_plans_ = false;  // false: they are taken from the intervals, to their precision
  std::int64_t step_ = 0;       // of the last line written
};

}  // namespace triaccel
