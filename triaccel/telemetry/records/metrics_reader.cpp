#include "triaccel/telemetry/records/metrics_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "triaccel/telemetry/records/json_fields.h"

namespace triaccel {
namespace {

/// After a rollback to a checkpoint, later steps are measured again: drops the old records.
void drop_after(std::int64_t step, RunMetrics& metrics) {
  while (!metrics.intervals.empty() && metrics.intervals.back().report.step > step)
    metrics.intervals.pop_back();
  while (!metrics.evaluations.empty() && metrics.evaluations.back().step > step)
    metrics.evaluations.pop_back();
}

}  // namespace

bool for_each_metrics_line(const std::filesystem::path& path, const MetricsReadOptions& options,
                           const std::function<void(std::string_view, MetricsRecord&)>& visit) {
  return for_each_json_line(path, options.max_bytes,
                            [&](const std::string& line, const std::string& where) {
                              MetricsRecord record = from_jsonl(line, where);
                              visit(line, record);
                            });
}

RunMetrics read_metrics(const std::filesystem::path& path, const MetricsReadOptions& options) {
  RunMetrics metrics;
  bool started = false;
  metrics.torn = for_each_metrics_line(path, options, [&](std::string_view, MetricsRecord& record) {
    if (auto* info = std::get_if<RunInfo>(&record)) {
      if (!std::exchange(started, true)) metrics.info = std::move(*info);
      metrics.summary.reset();  // the run was resumed
    } else if (auto* interval = std::get_if<IntervalRecord>(&record)) {
      const StepReport& report = interval->report;
      drop_after(report.step - std::max<std::int64_t>(report.interval_steps, 1), metrics);
      metrics.intervals.push_back(std::move(*interval));
    } else if (auto* evaluation = std::get_if<EvaluationReport>(&record)) {
      metrics.evaluations.push_back(std::move(*evaluation));
    } else if (auto* notice = std::get_if<NoticeRecord>(&record)) {
      metrics.notices.push_back(std::move(*notice));
    } else if (auto* finish = std::get_if<FinishRecord>(&record)) {
      metrics.summary = std::move(finish->summary);
    }
  });
  return metrics;
}

}  // namespace triaccel
