#include "triaccel/telemetry/records/record_json.h"

#include <fmt/format.h>

#include <charconv>

#include "triaccel/telemetry/records/plan_record.h"

namespace triaccel {
namespace {

using Json = nlohmann::ordered_json;

// Each field list is shared by writing (Record is const) and reading.

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
  field("consecutive_skips", report.consecutive_skips);
  field("skipped_layer", report.skipped_layer);
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
void for_each_probe_field(Record& probe, Field&& field) {
  field("step", probe.step);
  field("batch", probe.batch);
  field("seconds", probe.seconds);
  field("negative", probe.negative);
  field("skipped", probe.skipped);
}

template <typename Record, typename Field>
void for_each_saved_field(Record& saved, Field&& field) {
  field("saved", saved.saved);
  field("passed_bytes", saved.passed_bytes);
  field("unique_bytes", saved.unique_bytes);
  field("fp32_bytes", saved.fp32_bytes);
  field("allocations", saved.allocations);
  field("allocated_bytes", saved.allocated_bytes);
  field("shared", saved.shared);
  field("derived", saved.derived);
  field("mismatches", saved.mismatches);
  field("decodes", saved.decodes);
  field("shared_decodes", saved.shared_decodes);
}

template <typename Record, typename Field>
void for_each_noise_field(Record& noise, Field&& field) {
  field("compression_variance", noise.compression_variance);
  field("batch_variance", noise.batch_variance);
  field("error", noise.error);
}

auto write_to(Json& target) {
  return [&target](const char* key, const auto& value) { target[key] = value; };
}

auto read_from(const JsonFields& source) {
  return [&source](const char* key, auto& value) { source.read(key, value); };
}

template <typename Enum>
std::string key_of(std::size_t index) {
  return std::string(name_of(static_cast<Enum>(index)));
}

Json curvature_json(const CurvatureReport& report) {
  Json json = {{"mode", name_of(report.mode)}};
  for_each_probe_field(report, write_to(json));
  Json& layers = json["layers"] = Json::array();
  for (const LayerCurvature& layer : report.layers)
    layers.push_back(Json::array({layer.eigenvalues, layer.gradient_noise, layer.gradient_signal}));
  return json;
}

CurvatureReport curvature_from(const JsonFields& fields) {
  CurvatureReport report;
  for_each_probe_field(report, read_from(fields));
  std::string mode;
  fields.read("mode", mode);
  for (const CurvatureMode known : {CurvatureMode::Hessian, CurvatureMode::FisherGram})
    if (mode == name_of(known)) report.mode = known;
  if (mode != name_of(report.mode)) fields.reject("mode", "hessian or fisher_gram");
  for (const nlohmann::json& entry : fields.array("layers")) {
    if (!entry.is_array() || entry.size() != 3 || !entry[0].is_array())
      fields.reject("layers", "a list of [[eigenvalues], noise, signal]");
    LayerCurvature layer{.gradient_noise = number_in(entry[1], "layers", fields),
                         .gradient_signal = number_in(entry[2], "layers", fields)};
    for (const nlohmann::json& value : entry[0])
      layer.eigenvalues.push_back(number_in(value, "layers", fields));
    report.layers.push_back(std::move(layer));
  }
  return report;
}

Json saved_json(const StepReport& report) {
  Json json = {{"held_bytes", report.saved->all_held_bytes()}};
  for_each_saved_field(*report.saved, write_to(json));
  json["nonfinite"] = report.saved_nonfinite;
  Json& by_codec = json["held_by_codec"] = Json::object();
  for (std::size_t i = 0; i < report.saved->held_bytes.size(); ++i)
    if (report.saved->held_bytes[i] > 0)
      by_codec[key_of<SavedCodec>(i)] = report.saved->held_bytes[i];
  return json;
}

void saved_from(const JsonFields& fields, StepReport& report) {
  SavedCounts& saved = report.saved.emplace();
  for_each_saved_field(saved, read_from(fields));
  fields.read("nonfinite", report.saved_nonfinite);
  const JsonFields by_codec = fields.object("held_by_codec");
  for (std::size_t i = 0; i < saved.held_bytes.size(); ++i)
    by_codec.read(key_of<SavedCodec>(i).c_str(), saved.held_bytes[i]);
}

Json noise_json(const CompressionNoise& noise) {
  Json json;
  for_each_noise_field(noise, write_to(json));
  Json& layers = json["layers"] = Json::array();
  for (const LayerCompressionNoise& layer : noise.layers)
    layers.push_back(Json::array({layer.variance, layer.square}));
  return json;
}

CompressionNoise noise_from(const JsonFields& fields) {
  CompressionNoise noise;
  fields.read("code_variance", noise.compression_variance);  // its name before version 0.2
  for_each_noise_field(noise, read_from(fields));
  for (const nlohmann::json& entry : fields.array("layers")) {
    if (!entry.is_array() || entry.size() != 2)
      fields.reject("layers", "a list of [variance, square]");
    noise.layers.push_back(
        {number_in(entry[0], "layers", fields), number_in(entry[1], "layers", fields)});
  }
  return noise;
}

Json signals_json(const LayerSignals& s) {
  return Json::array({s.count, s.sum, s.sum_of_squares, short_double(s.absolute_maximum),
                      s.nonfinite, s.fp16_zeros, s.fp16_subnormals, short_double(s.fp16_scale)});
}

LayerSignals signals_from(const nlohmann::json& entry, const JsonFields& fields) {
  const bool with_fp16 = entry.size() == 8;
  if (!entry.is_array() || (entry.size() != 5 && !with_fp16))
    fields.reject("layers", "a list of [count, sum, squares, maximum, nonfinite, ...]");
  const auto whole = [&](std::size_t i) {
    if (!entry[i].is_number_integer()) fields.reject("layers", "lists with whole counts");
    return entry[i].get<std::int64_t>();
  };
  const auto number = [&](std::size_t i) { return number_in(entry[i], "layers", fields); };
  LayerSignals signals{.count = whole(0),
                       .sum = number(1),
                       .sum_of_squares = number(2),
                       .absolute_maximum = static_cast<float>(number(3)),
                       .nonfinite = whole(4)};
  if (with_fp16) {
    signals.fp16_zeros = whole(5);
    signals.fp16_subnormals = whole(6);
    signals.fp16_scale = static_cast<float>(number(7));
  }
  return signals;
}

}  // namespace

IntervalRecord interval_record(const StepReport& report, const StepPlan& plan) {
  IntervalRecord record{.report = report,
                        .batch_size = plan.batch_size,
                        .micro_batch_size = plan.micro_batch_size,
                        .learning_rate_scale = plan.learning_rate_scale,
                        .precisions = precision_letters(plan),
                        .plan_hash = plan_hash(plan)};
  for (const LayerPlan& layer : plan.layers) {
    record.learning_rate_scales.push_back(layer.learning_rate_scale);
    ++record.layers_by_precision[static_cast<std::size_t>(layer.compute)];
  }
  return record;
}

Json interval_json(const IntervalRecord& record) {
  Json json = {{"kind", "interval"}};
  for_each_report_field(record.report, write_to(json));
  Json memory;
  for_each_memory_field(record.report.memory, write_to(memory));
  for (std::size_t i = 0; i < kMemoryPurposes; ++i)
    memory["peak_by_purpose"][key_of<MemoryPurpose>(i)] = record.report.memory.peak_by_purpose[i];
  json["memory"] = std::move(memory);
  json["batch"] = record.batch_size;
  json["micro_batch"] = record.micro_batch_size;
  json["learning_rate_scale"] = short_double(record.learning_rate_scale);
  for (std::size_t i = 0; i < kPrecisions; ++i)
    json["precision"][key_of<Precision>(i)] = record.layers_by_precision[i];
  // As text, since many JSON readers keep only 53 bits of a number.
  json["plan"] = fmt::format("{:016x}", record.plan_hash);
  if (!record.precisions.empty()) {
    json["precisions"] = record.precisions;
    Json& scales = json["learning_rate_scales"] = Json::array();
    for (const float scale : record.learning_rate_scales) scales.push_back(short_double(scale));
  }
  if (!record.report.layers.empty()) {
    Json& layers = json["layers"] = Json::array();
    for (const LayerSignals& signals : record.report.layers)
      layers.push_back(signals_json(signals));
  }
  if (record.report.saved) json["saved"] = saved_json(record.report);
  if (record.report.compression_noise)
    json["compression_noise"] = noise_json(*record.report.compression_noise);
  if (record.report.curvature) json["curvature"] = curvature_json(*record.report.curvature);
  return json;
}

IntervalRecord interval_from(const JsonFields& fields) {
  IntervalRecord record;
  for_each_report_field(record.report, read_from(fields));
  const JsonFields memory = fields.object("memory");
  for_each_memory_field(record.report.memory, read_from(memory));
  const JsonFields purposes = memory.object("peak_by_purpose");
  for (std::size_t i = 0; i < kMemoryPurposes; ++i)
    purposes.read(key_of<MemoryPurpose>(i).c_str(), record.report.memory.peak_by_purpose[i]);
  fields.read("batch", record.batch_size);
  fields.read("micro_batch", record.micro_batch_size);
  fields.read("learning_rate_scale", record.learning_rate_scale);
  const JsonFields precisions = fields.object("precision");
  for (std::size_t i = 0; i < kPrecisions; ++i)
    precisions.read(key_of<Precision>(i).c_str(), record.layers_by_precision[i]);
  std::string hash = "0";
  fields.read("plan", hash);
  const auto [end, error] =
      std::from_chars(hash.data(), hash.data() + hash.size(), record.plan_hash, 16);
  if (error != std::errc{} || end != hash.data() + hash.size()) fields.reject("plan", "a hash");
  fields.read("precisions", record.precisions);
  for (const char letter : record.precisions)
    if (!precision_of(letter)) fields.reject("precisions", "made of the letters f, b, h, i");
  fields.read("learning_rate_scales", record.learning_rate_scales);
  for (const nlohmann::json& entry : fields.array("layers"))
    record.report.layers.push_back(signals_from(entry, fields));
  if (fields.has("saved")) saved_from(fields.object("saved"), record.report);
  for (const char* noise : {"code_noise", "compression_noise"})  // the former until version 0.2
    if (fields.has(noise)) record.report.compression_noise = noise_from(fields.object(noise));
  if (fields.has("curvature")) record.report.curvature = curvature_from(fields.object("curvature"));
  return record;
}

}  // namespace triaccel
