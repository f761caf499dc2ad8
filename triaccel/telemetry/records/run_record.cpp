#include "triaccel/telemetry/records/run_record.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/metrics_files.h"
#include "triaccel/telemetry/records/summary.h"

namespace triaccel {
namespace {

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kMaxConfigBytes = std::int64_t{1} << 20;

}  // namespace

RunRecord read_run_record(const std::filesystem::path& run_directory,
                          const MetricsReadOptions& reading) {
  namespace fs = std::filesystem;
  RunRecord run;
  // "runs/a/" and "." have no last component of their own.
  run.name = fs::absolute(run_directory / "").lexically_normal().parent_path().filename().string();
  if (const fs::path metrics = run_directory / kMetricsJsonl; fs::exists(metrics))
    run.metrics = read_metrics(metrics, reading);
  if (const fs::path summary = run_directory / kSummaryFile; fs::exists(summary))
    run.summary = read_summary(summary);
  if (const fs::path config = run_directory / "config.toml"; fs::exists(config))
    run.config = read_text_file(config, kMaxConfigBytes);
  return run;
}

RunSummary outcome_of(const RunRecord& run) {
  const bool running = run.summary && run.summary->status == "running";
  if (run.summary && !running) return *run.summary;
  if (run.metrics.summary) return *run.metrics.summary;
  const RunInfo& info = run.metrics.info;
  RunSummary outcome{.status = "unfinished",
                     .method = info.method,
                     .model = info.model,
                     .data = info.data,
                     .device = info.device,
                     .device_type = info.device_type,
                     .commit = info.commit,
                     .seed = info.seed,
                     .accuracy = kNotMeasured,
                     .loss = kNotMeasured,
                     .best_accuracy = kNotMeasured,
                     .budget_bytes = info.budget_bytes};
  if (running) {
    outcome.status = run.summary->status;
    outcome.process = run.summary->process;
    outcome.heartbeat = run.summary->heartbeat;
  }
  std::optional<std::uint64_t> last_hash;
  for (const IntervalRecord& interval : run.metrics.intervals) {
    const StepReport& report = interval.report;
    outcome.epochs = report.epoch;
    outcome.samples = report.samples;
    outcome.steps = report.step;
    outcome.seconds += report.seconds;
    outcome.batch_final = interval.batch_size;
    outcome.peak_bytes = std::max(outcome.peak_bytes, report.memory.peak);
    outcome.peak_reserved_bytes = std::max(outcome.peak_reserved_bytes, report.memory.reserved);
    outcome.skipped_steps += report.skipped_steps;
    outcome.memory_retries += report.memory_retries;
    outcome.batch_largest = std::max(outcome.batch_largest, interval.batch_size);
    if (report.curvature && report.curvature->skipped.empty()) ++outcome.curvature_probes;
    if (report.compression_noise) {
      outcome.compression_noise =
          report.compression_noise->compression_variance / report.compression_noise->batch_variance;
      outcome.compression_noise_by_layer = report.compression_noise->shares();
    }
    outcome.layers_fp32 = interval.layers_by_precision[0];
    outcome.layers_bf16 = interval.layers_by_precision[1];
    outcome.layers_fp16 = interval.layers_by_precision[2];
    if (last_hash && *last_hash != interval.plan_hash) ++outcome.plan_changes;
    last_hash = interval.plan_hash;
  }
  for (const EvaluationReport& evaluation : run.metrics.evaluations) {
    const double accuracy = 100 * evaluation.accuracy;
    outcome.best_accuracy = std::fmax(outcome.best_accuracy, accuracy);
    if (evaluation.split != "test") continue;
    outcome.loss = evaluation.loss;
    outcome.accuracy = accuracy;
  }
  return outcome;
}

}  // namespace triaccel
