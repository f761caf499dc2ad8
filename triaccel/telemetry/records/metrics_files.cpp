#include "triaccel/telemetry/records/metrics_files.h"

#include <algorithm>
#include <string>

#include "triaccel/telemetry/records/metrics_record.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// True if a line stays valid when the run resumes after `last_step`: later records will be written
/// again, and a resumed run has not finished.
bool stays(const MetricsRecord& record, std::int64_t last_step) {
  if (std::holds_alternative<FinishRecord>(record)) return false;
  if (std::holds_alternative<RunInfo>(record)) return step_of(record) < last_step;
  return step_of(record) <= last_step;
}

std::function<void(const std::string&)> dropping(const MetricsFilesOptions& options) {
  return [&options](const std::string& problem) {
    if (options.warn) options.warn(problem + "; dropping this line");
  };
}

/// Truncates both files to the step after which the run resumes. The CSV file is regenerated from
/// the JSONL lines, so the two agree even after a crash. Each file is replaced atomically; after a
/// crash in between, the next resume truncates again.
void truncate_metrics(const fs::path& directory, const MetricsFilesOptions& options) {
  const fs::path jsonl = directory / kMetricsJsonl;
  const fs::path csv = directory / kMetricsCsv;
  const fs::path lines = temporary_name(jsonl), rows = temporary_name(csv);
  try {
    AppendedFile kept_lines = AppendedFile::create(lines);
    AppendedFile kept_rows = AppendedFile::create(rows);
    kept_rows.append(csv_header() + '\n');
    if (fs::exists(jsonl)) {
      const MetricsReadOptions reading{.max_bytes = std::int64_t{1} << 62,
                                       .on_damage = dropping(options)};
      for_each_metrics_line(jsonl, reading, [&](std::string_view line, MetricsRecord& record) {
        if (!stays(record, options.resume_after_step)) return;
        kept_lines.append(std::string(line) + '\n');
        if (const auto row = csv_row(record)) kept_rows.append(*row + '\n');
      });
    }
    kept_lines.sync();
    kept_rows.sync();
    rename_durably(lines, jsonl);
    rename_durably(rows, csv);
  } catch (...) {  // a full disk, perhaps
    std::error_code ignored;
    for (const fs::path& unfinished : {lines, rows}) fs::remove(unfinished, ignored);
    throw;
  }
}

/// Keeps the plans that took effect before `last_step`; the resumed run writes the one at
/// `last_step` again. Returns the last plan kept.
std::optional<ScheduledPlan> truncate_plans(const fs::path& path,
                                            const MetricsFilesOptions& options) {
  std::vector<ScheduledPlan> plans;
  if (fs::exists(path)) plans = read_plans(path, dropping(options));
  std::optional<ScheduledPlan> last;
  std::string kept;
  for (const ScheduledPlan& record : plans) {
    if (record.step >= options.resume_after_step) break;
    kept += to_jsonl(record) + '\n';
    last = record;
  }
  write_atomically(path, kept);
  return last;
}

AppendedFile open_file(const fs::path& path, const MetricsFilesOptions& options) {
  return options.resume_after_step < 0 ? AppendedFile::create(path)
                                       : AppendedFile::open_at_end(path);
}

/// Runs before any file is opened for writing. Returns the last plan of a resumed run.
std::optional<ScheduledPlan> prepare(const fs::path& directory,
                                     const MetricsFilesOptions& options) {
  if (options.resume_after_step < 0) return std::nullopt;
  truncate_metrics(directory, options);
  return truncate_plans(directory / kPlansJsonl, options);
}

}  // namespace

MetricsFiles::MetricsFiles(const fs::path& directory, const MetricsFilesOptions& options)
    : last_plan_(prepare(directory, options)),
      jsonl_(open_file(directory / kMetricsJsonl, options)),
      csv_(open_file(directory / kMetricsCsv, options)),
      plans_(open_file(directory / kPlansJsonl, options)),
      step_(std::max<std::int64_t>(options.resume_after_step, 0)) {
  if (options.resume_after_step < 0) csv_.append(csv_header() + '\n');
}

void MetricsFiles::start(const RunInfo& info) { write(info); }

void MetricsFiles::plan(std::int64_t step, const StepPlan& plan) {
  plans_announced_ = true;
  write_plan(step, plan);
}

void MetricsFiles::write_plan(std::int64_t step, const StepPlan& plan) {
  // After a rollback to an earlier step the plan is written again: others may have followed it.
  if (last_plan_ && last_plan_->plan == plan && last_plan_->step <= step) return;
  last_plan_ = {step, plan};
  plans_.append(to_jsonl(*last_plan_) + '\n');
}

void MetricsFiles::interval(const StepReport& report, const StepPlan& plan) {
  if (!plans_announced_) write_plan(report.step - report.interval_steps, plan);
  write(interval_record(report, plan));
}

void MetricsFiles::evaluation(const EvaluationReport& report) { write(report); }

void MetricsFiles::notice(const std::string& message) { write(NoticeRecord{step_, message}); }

void MetricsFiles::finish(const RunSummary& summary) {
  write(FinishRecord{summary.steps, summary});
  jsonl_.sync();
  csv_.sync();
  plans_.sync();
}

void MetricsFiles::write(const MetricsRecord& record) {
  step_ = step_of(record);
  jsonl_.append(to_jsonl(record) + '\n');
  if (const auto row = csv_row(record)) csv_.append(*row + '\n');
}

}  // namespace triaccel
