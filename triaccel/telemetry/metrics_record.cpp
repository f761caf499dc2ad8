#include "triaccel/telemetry/metrics_record.h"

#include <charconv>
#include <cstdio>
#include <limits>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/json_fields.h"
#include "triaccel/telemetry/summary_fields.h"

namespace triaccel {
namespace {

using Json = nlohmann::ordered_json;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// Each list below is shared by writing (Record is const) and reading.

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
void for_each_report_field(Record& report, Field&& field) {
  field("step", report.step);
  field("samples", report.samples);
  field("epoch", report.epoch);
  field("interval_steps", report.interval_steps);
  field("interval_samples", report.interval_samples);
  field("seconds", report.seconds);
  field("loss", report.loss);
  field("accuracy", report.accuracy);
  field("learning_rate", report.learning_rate);
  field("gradient_norm", report.gradient_norm);
  field("loss_scale", report.loss_scale);
  field("skipped_steps", report.skipped_steps);
  field("memory_retries", report.memory_retries);
}

template <typename Record, typename Field>
void for_each_memory_field(Record& memory, Field&& field) {
  field("used", memory.used);
  field("peak", memory.peak);
  field("reserved", memory.reserved);
  field("limit", memory.limit);
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

std::string purpose_key(std::size_t index) {
  return std::string(name_of(static_cast<MemoryPurpose>(index)));
}

std::string precision_key(std::size_t index) {
  return std::string(name_of(static_cast<Precision>(index)));
}

Json interval_json(const IntervalRecord& record) {
  Json json = {{"kind", "interval"}};
  const auto write_to = [](Json& target) {
    return [&target](const char* key, const auto& value) { target[key] = value; };
  };
  for_each_report_field(record.report, write_to(json));
  Json memory;
  for_each_memory_field(record.report.memory, write_to(memory));
  for (std::size_t i = 0; i < kMemoryPurposes; ++i)
    memory["peak_by_purpose"][purpose_key(i)] = record.report.memory.peak_by_purpose[i];
  json["memory"] = std::move(memory);
  json["batch"] = record.batch_size;
  json["micro_batch"] = record.micro_batch_size;
  for (std::size_t i = 0; i < kPrecisions; ++i)
    json["precision"][precision_key(i)] = record.layers_by_precision[i];
  // Sixteen hex digits: most JSON readers keep only 53 bits of a number.
  std::array<char, 17> hash{};
  std::snprintf(hash.data(), hash.size(), "%016llx",
                static_cast<unsigned long long>(record.plan_hash));
  json["plan"] = hash.data();
  if (!record.report.layers.empty()) {
    Json layers = Json::array();
    for (const LayerSignals& s : record.report.layers)
      layers.push_back(
          Json::array({s.count, s.sum, s.sum_of_squares, s.absolute_maximum, s.nonfinite}));
    json["layers"] = std::move(layers);
  }
  return json;
}

LayerSignals layer_from(const nlohmann::json& entry, const JsonFields& fields) {
  const bool shaped = entry.is_array() && entry.size() == 5 && entry[0].is_number_integer() &&
                      entry[4].is_number_integer();
  if (!shaped) fields.reject("layers", "a list of [count, sum, squares, maximum, nonfinite]");
  const auto number = [&](std::size_t i) {
    if (!entry[i].is_number() && !entry[i].is_null()) fields.reject("layers", "lists of numbers");
    return entry[i].is_null() ? std::numeric_limits<double>::quiet_NaN() : entry[i].get<double>();
  };
  return {.count = entry[0].get<std::int64_t>(),
          .sum = number(1),
          .sum_of_squares = number(2),
          .absolute_maximum = static_cast<float>(number(3)),
          .nonfinite = entry[4].get<std::int64_t>()};
}

IntervalRecord interval_from(const JsonFields& fields) {
  const auto read_from = [](const JsonFields& source) {
    return [&source](const char* key, auto& value) { source.read(key, value); };
  };
  IntervalRecord record;
  for_each_report_field(record.report, read_from(fields));
  const JsonFields memory = fields.object("memory");
  for_each_memory_field(record.report.memory, read_from(memory));
  const JsonFields purposes = memory.object("peak_by_purpose");
  for (std::size_t i = 0; i < kMemoryPurposes; ++i)
    purposes.read(purpose_key(i).c_str(), record.report.memory.peak_by_purpose[i]);
  fields.read("batch", record.batch_size);
  fields.read("micro_batch", record.micro_batch_size);
  const JsonFields precisions = fields.object("precision");
  for (std::size_t i = 0; i < kPrecisions; ++i)
    precisions.read(precision_key(i).c_str(), record.layers_by_precision[i]);
  std::string hash = "0";
  fields.read("plan", hash);
  const auto [end, error] =
      std::from_chars(hash.data(), hash.data() + hash.size(), record.plan_hash, 16);
  if (error != std::errc{} || end != hash.data() + hash.size()) fields.reject("plan", "a hash");
  for (const nlohmann::json& entry : fields.array("layers"))
    record.report.layers.push_back(layer_from(entry, fields));
  return record;
}

}  // namespace

IntervalRecord interval_record(const StepReport& report, const StepPlan& plan) {
  IntervalRecord record{.report = report,
                        .batch_size = plan.batch_size,
                        .micro_batch_size = plan.micro_batch_size,
                        .plan_hash = plan_hash(plan)};
  for (const LayerPlan& layer : plan.layers)
    ++record.layers_by_precision[static_cast<std::size_t>(layer.compute)];
  return record;
}

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
