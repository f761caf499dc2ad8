#include "triaccel/telemetry/records/metrics_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/telemetry/records/record_json.h"

namespace triaccel {
namespace {

using Json = nlohmann::ordered_json;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// Each field list is shared by writing (Record is const) and reading.

template <typename Record, typename Field>
void for_each_start_field(Record& info, Field&& field) {
  field("step", info.first_step);
  field("run", info.run);
  field("method", info.method);
  field("model", info.model);
  field("data", info.data);
  field("device", info.device);
  field("device_type", info.device_type);
  field("commit", info.commit);
  field("seed", info.seed);
  field("epochs", info.epochs);
  field("training_samples", info.training_samples);
  field("total_samples", info.total_samples);
  field("budget_bytes", info.budget_bytes);
  field("layer_names", info.layer_names);
}

template <typename Record, typename Field>
void for_each_evaluation_field(Record& report, Field&& field) {
  field("step", report.step);
  field("epoch", report.epoch);
  field("split", report.split);
  field("samples", report.samples);
  field("loss", report.loss);
  field("accuracy", report.accuracy);
  field("seconds", report.seconds);
}

/// After a rollback to a checkpoint, later steps are measured again: drops the old records.
void drop_after(std::int64_t step, RunMetrics& metrics) {
  while (!metrics.intervals.empty() && metrics.intervals.back().report.step > step)
    metrics.intervals.pop_back();
  while (!metrics.evaluations.empty() && metrics.evaluations.back().step > step)
    metrics.evaluations.pop_back();
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

double per_second(std::int64_t samples, double seconds) {
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

double largest_curvature(const CurvatureReport& report) {
  double largest = 0;
  for (const LayerCurvature& layer : report.layers) largest = std::max(largest, layer.largest());
  return largest;
}

std::string interval_row(const IntervalRecord& record) {
  const StepReport& r = record.report;
  std::string row = fmt::format(
      "interval,\"train\",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", r.step,
      r.interval_samples, r.epoch, r.loss, r.accuracy, r.seconds,
      per_second(r.interval_samples, r.seconds), r.samples, r.learning_rate, r.gradient_norm,
      r.loss_scale, r.skipped_steps, r.memory_retries, record.batch_size, record.micro_batch_size,
      r.memory.used, r.memory.peak, r.memory.reserved, r.memory.limit);
  for (const std::int64_t bytes : r.memory.peak_by_purpose) row += fmt::format(",{}", bytes);
  for (const std::int64_t layers : record.layers_by_precision) row += fmt::format(",{}", layers);
  row += fmt::format(",{:016x},{},{}", record.plan_hash, record.learning_rate_scale,
                     record.precisions);
  if (!r.curvature || !r.curvature->skipped.empty()) return row + ",,";
  return row + fmt::format(",{},{}", largest_curvature(*r.curvature), r.curvature->seconds);
}

}  // namespace

std::int64_t step_of(const MetricsRecord& record) {
  return std::visit(Overloaded{[](const RunInfo& info) { return info.first_step; },
                               [](const IntervalRecord& interval) { return interval.report.step; },
                               [](const auto& other) { return other.step; }},
                    record);
}

std::string to_jsonl(const MetricsRecord& record) {
  Json json;
  const auto write = [&](const char* key, const auto& value) { json[key] = value; };
  std::visit(Overloaded{[&](const RunInfo& info) {
                          json["kind"] = "start";
                          for_each_start_field(info, write);
                        },
                        [&](const IntervalRecord& interval) { json = interval_json(interval); },
                        [&](const EvaluationReport& evaluation) {
                          json["kind"] = "evaluation";
                          for_each_evaluation_field(evaluation, write);
                        },
                        [&](const NoticeRecord& notice) {
                          json["kind"] = "notice";
                          json["step"] = notice.step;
                          json["message"] = notice.message;
                        },
                        [&](const FinishRecord& finish) {
                          json["kind"] = "finish";
                          json["step"] = finish.step;
                          write_summary_fields(json, finish.summary);
                        }},
             record);
  return dump_line(json);
}

MetricsRecord from_jsonl(std::string_view line, std::string_view where) {
  const nlohmann::json json = JsonFields::parse(line, where);
  const JsonFields fields(json, where);
  const auto read = [&](const char* key, auto& value) { fields.read(key, value); };
  std::string kind;
  fields.read("kind", kind);
  if (!fields.has("step")) fields.reject("step", "present");
  if (kind == "start") {
    RunInfo info;
    for_each_start_field(info, read);
    return info;
  }
  if (kind == "interval") return interval_from(fields);
  if (kind == "evaluation") {
    EvaluationReport evaluation;
    for_each_evaluation_field(evaluation, read);
    return evaluation;
  }
  if (kind == "notice") {
    NoticeRecord notice;
    fields.read("step", notice.step);
    fields.read("message", notice.message);
    return notice;
  }
  if (kind == "finish") {
    FinishRecord finish;
    fields.read("step", finish.step);
    finish.summary = read_summary_fields(fields);
    return finish;
  }
  throw StorageError(text(where, ": unknown kind '", kind,
                          "'; the file is damaged or was written by a newer version"));
}

bool for_each_metrics_line(const std::filesystem::path& path, const MetricsReadOptions& options,
                           const std::function<void(std::string_view, MetricsRecord&)>& visit) {
  return for_each_json_line(path, options.max_bytes,
                            [&](const std::string& line, const std::string& where) {
                              MetricsRecord record;
                              try {
                                record = from_jsonl(line, where);
                              } catch (const StorageError& error) {
                                if (!options.on_damage) throw;
                                return options.on_damage(error.what());
                              }
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
                       e->epoch, e->loss, e->accuracy, e->seconds,
                       per_second(e->samples, e->seconds)) +
           std::string(kEmpty, ',');
  }
  return std::nullopt;
}

}  // namespace triaccel
