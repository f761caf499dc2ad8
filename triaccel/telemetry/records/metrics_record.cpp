#include "triaccel/telemetry/records/metrics_record.h"

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

}  // namespace triaccel
