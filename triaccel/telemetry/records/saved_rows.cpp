#include "triaccel/telemetry/records/saved_rows.h"

#include <fmt/format.h>

#include "triaccel/base/error.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/telemetry/records/json_fields.h"

namespace triaccel {
namespace {

std::string shape_text(const SavedStatistics& tensor) {
  std::string out;
  // The first dimension is the batch.
  for (std::size_t i = tensor.per_sample && tensor.sizes.size() > 1 && tensor.sizes[0] == 1 ? 1 : 0;
       i < tensor.sizes.size(); ++i)
    out += fmt::format("{}{}", out.empty() ? "" : "x", tensor.sizes[i]);
  return out;
}

std::vector<double> bits_of(const SavedPlan& plan) {
  if (plan.codec == SavedCodec::Registered) return {registered_codec(plan.registered).bits()};
  if (is_of_groups(plan.codec) || plan.codec == SavedCodec::NonZeros) return {plan.eighths / 8.0};
  std::vector<double> bits;
  if (plan.codec == SavedCodec::Frequency)
    for (const std::uint8_t eighths : plan.band_eighths) bits.push_back(eighths / 8.0);
  return bits;
}

std::string codec_text(const SavedPlan& plan) {
  if (plan.codec == SavedCodec::Registered)
    return std::string(registered_codec(plan.registered).name());
  std::string out(name_of(plan.codec));
  return plan.codec == SavedCodec::Frequency ? out + fmt::format("{}", plan.block) : out;
}

/// Calls `field(key, member)` for every column: the one list that JSON and CSV share.
template <typename Field>
void visit_columns(const SavedRow& row, Field&& field) {
  field("entry", row.entry);
  field("consumer", row.consumer);
  field("producer", row.producer);
  field("shape", row.shape);
  field("class", row.kind);
  field("codec", row.codec);
  field("fp32_bytes", row.fp32_bytes);
  field("bytes", row.bytes);
  field("ratio", row.ratio);
  field("error_share", row.error_share);
  field("bits", row.bits);
}

/// Names of operators, codecs and classes: none holds a quotation mark.
std::string csv_cell(const std::string& value) { return '"' + value + '"'; }
std::string csv_cell(double value) { return fmt::format("{}", value); }
std::string csv_cell(std::int64_t value) { return fmt::format("{}", value); }
std::string csv_cell(const std::vector<double>& values) {
  return fmt::format("\"{}\"", fmt::join(values, " "));
}

}  // namespace

std::vector<SavedRow> saved_rows(const SavedCensus& census,
                                 const std::vector<SavedStatistics>& tensors,
                                 const SavedCosts& costs, std::int64_t samples) {
  require(costs.plans.size() == tensors.size() && costs.bytes.size() == tensors.size() &&
              costs.gradient_errors.size() == tensors.size(),
          "saved_rows", "plans, bytes and errors must be as many as the ", tensors.size(),
          " tensors");
  double all_errors = 0;
  for (const double error : costs.gradient_errors) all_errors += error;
  std::vector<std::string> consumers(census.entries.size());
  for (const SavedEntry& entry : census.entries) {
    std::string& names = consumers.at(static_cast<std::size_t>(entry.same_as));
    names += (names.empty() ? "" : " + ") + entry.consumer;
  }
  std::vector<SavedRow> rows;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SavedStatistics& tensor = tensors[i];
    if (tensor.kind == SavedClass::Constant) continue;
    const auto entry = static_cast<std::size_t>(tensor.entry);
    const std::int64_t fp32 = tensor.fp32_bytes(samples);
    const std::int64_t held = costs.bytes[i];
    rows.push_back({.entry = tensor.entry,
                    .consumer = consumers.at(entry),
                    .producer = census.entries[entry].producer,
                    .shape = shape_text(tensor),
                    .kind = std::string(name_of(tensor.kind)),
                    .codec = codec_text(costs.plans[i]),
                    .bits = bits_of(costs.plans[i]),
                    .fp32_bytes = fp32,
                    .bytes = held,
                    .ratio = held > 0 ? static_cast<double>(fp32) / static_cast<double>(held) : 0,
                    .error_share = all_errors > 0 ? costs.gradient_errors[i] / all_errors : 0});
  }
  return rows;
}

std::string saved_rows_json(std::span<const SavedRow> rows) {
  std::string out = "[";
  for (const SavedRow& row : rows) {
    nlohmann::ordered_json object;
    visit_columns(row, [&](const char* key, const auto& value) { object[key] = value; });
    out += (out.size() > 1 ? ",\n " : "\n ") + dump_line(object);
  }
  return out + "\n]\n";
}

std::string saved_rows_csv(std::span<const SavedRow> rows) {
  std::string out;
  visit_columns({}, [&](const char* key, const auto&) {
    out += (out.empty() ? "" : ",") + std::string(key);
  });
  for (const SavedRow& row : rows) {
    std::string line;
    visit_columns(row, [&](const char*, const auto& value) {
      line += (line.empty() ? "" : ",") + csv_cell(value);
    });
    out += '\n' + line;
  }
  return out + '\n';
}

}  // namespace triaccel
