#include <fmt/format.h>

#include <algorithm>

#include "triaccel/telemetry/records/metrics_record.h"

namespace triaccel {
namespace {

/// The shortest text that round-trips; "nan" and "inf" as pandas and R read them.
std::string number(double value) { return fmt::format("{}", value); }

double per_second(std::int64_t samples, double seconds) {
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

/// Quoted, since a split is named by the user.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out + '"';
}

double largest_curvature(const CurvatureReport& report) {
  double largest = 0;
  for (const LayerCurvature& layer : report.layers) largest = std::max(largest, layer.largest());
  return largest;
}

std::string interval_row(const IntervalRecord& record) {
  const StepReport& r = record.report;
  std::string row =
      fmt::format("interval,\"train\",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                  r.step, r.interval_samples, number(r.epoch), number(r.loss), number(r.accuracy),
                  number(r.seconds), number(per_second(r.interval_samples, r.seconds)), r.samples,
                  number(r.learning_rate), number(r.gradient_norm), number(r.loss_scale),
                  r.skipped_steps, r.memory_retries, record.batch_size, record.micro_batch_size,
                  r.memory.used, r.memory.peak, r.memory.reserved, r.memory.limit);
  for (const std::int64_t bytes : r.memory.peak_by_purpose) row += fmt::format(",{}", bytes);
  for (const std::int64_t layers : record.layers_by_precision) row += fmt::format(",{}", layers);
  row += fmt::format(",{:016x},{},{}", record.plan_hash, record.learning_rate_scale,
                     record.precisions);
  if (!r.curvature || !r.curvature->skipped.empty()) return row + ",,";
  return row + fmt::format(",{},{}", number(largest_curvature(*r.curvature)),
                           number(r.curvature->seconds));
}

}  // namespace

std::string csv_header() {
  std::string header =
      "kind,split,step,samples,epoch,loss,accuracy,seconds,samples_per_second,samples_in_run,"
      "learning_rate,gradient_norm,loss_scale,skipped_steps,memory_retries,batch,micro_batch,"
      "memory_used,memory_peak,memory_reserved,memory_limit";
  for (std::size_t i = 0; i < kMemoryPurposes; ++i)
    header += fmt::format(",peak_{}", name_of(static_cast<MemoryPurpose>(i)));
  for (std::size_t i = 0; i < kPrecisions; ++i)
    header += fmt::format(",layers_{}", name_of(static_cast<Precision>(i)));
  return header + ",plan,learning_rate_scale,precisions,curvature_largest,probe_seconds";
}

std::optional<std::string> csv_row(const MetricsRecord& record) {
  if (const auto* interval = std::get_if<IntervalRecord>(&record)) return interval_row(*interval);
  if (const auto* e = std::get_if<EvaluationReport>(&record)) {
    // Columns that do not apply to an evaluation stay empty.
    constexpr std::size_t kEmpty = 12 + kMemoryPurposes + kPrecisions + 5;
    return fmt::format("evaluation,{},{},{},{},{},{},{},{}", quoted(e->split), e->step, e->samples,
                       number(e->epoch), number(e->loss), number(e->accuracy), number(e->seconds),
                       number(per_second(e->samples, e->seconds))) +
           std::string(kEmpty, ',');
  }
  return std::nullopt;
}

}  // namespace triaccel
