#include "triaccel/telemetry/elastic_rows.h"

#include <algorithm>
#include <tuple>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/appended_file.h"
#include "triaccel/telemetry/csv_cell.h"
#include "triaccel/telemetry/folder_lock.h"
#include "triaccel/telemetry/json_fields.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;

/// Calls `field(key, member)` for every field: the one list that writing JSON, CSV and reading
/// share.
template <typename Row, typename Field>
void for_each_elastic_field(Row& row, Field&& field) {
  field("model", row.model);
  field("data", row.data);
  field("rotation", row.rotation);
  field("train_samples", row.train_samples);
  field("method", row.method);
  field("number_format", row.number_format);
  field("bp_layers", row.bp_layers);
  field("seed", row.seed);
  field("epochs", row.epochs);
  field("accuracy", row.accuracy);
  field("accuracy_upright", row.accuracy_upright);
  field("accuracy_before", row.accuracy_before);
  field("peak_bytes", row.peak_bytes);
  field("predicted_bytes", row.predicted_bytes);
  field("seconds_per_epoch", row.seconds_per_epoch);
  field("timed", row.timed);
  field("batch", row.batch);
  field("learning_rate", row.learning_rate);
  field("zo_rate", row.zo_rate);
  field("device", row.device);
  field("commit", row.commit);
}

}  // namespace

bool same_run(const ElasticRow& a, const ElasticRow& b) {
  const auto key = [](const ElasticRow& row) {
    return std::tie(row.model, row.data, row.rotation, row.train_samples, row.method,
                    row.number_format, row.bp_layers, row.seed, row.epochs);
  };
  return key(a) == key(b);
}

std::vector<ElasticRow> read_elastic_rows(const fs::path& path) {
  std::vector<ElasticRow> rows;
  if (!fs::exists(path)) return rows;
  const nlohmann::json parsed = nlohmann::json::parse(read_text_file(path, kMostBytes), nullptr,
                                                      /*allow_exceptions=*/false);
  if (!parsed.is_array())
    throw StorageError(text(path.string(), ": this is no JSON list; is the file damaged?"));
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    const std::string where = text(path.string(), ": row ", i + 1);
    if (!parsed[i].is_object())
      throw StorageError(text(where, " is no object; is the file damaged?"));
    const JsonFields fields(parsed[i], where);
    ElasticRow& row = rows.emplace_back();
    for_each_elastic_field(row, [&](const char* key, auto& value) { fields.read(key, value); });
  }
  return rows;
}

std::vector<ElasticRow> record_elastic_rows(const fs::path& path,
                                            std::span<const ElasticRow> rows) {
  const FolderLock lock(path.has_parent_path() ? path.parent_path() : ".");
  std::vector<ElasticRow> all = read_elastic_rows(path);
  for (const ElasticRow& row : rows) {
    const auto found =
        std::ranges::find_if(all, [&](const ElasticRow& other) { return same_run(other, row); });
    if (found == all.end())
      all.push_back(row);
    else
      *found = row;
  }
  write_atomically(path, elastic_rows_json(all));
  return all;
}

std::string elastic_rows_json(std::span<const ElasticRow> rows) {
  std::string out = "[";
  for (const ElasticRow& row : rows) {
    nlohmann::ordered_json json;
    for_each_elastic_field(row, [&](const char* key, const auto& value) { json[key] = value; });
    out += (out.size() > 1 ? ",\n " : "\n ") + dump_line(json);
  }
  return out + "\n]\n";
}

std::string elastic_rows_csv(std::span<const ElasticRow> rows) {
  std::string out;
  const ElasticRow none;
  for_each_elastic_field(
      none, [&](const char* key, const auto&) { out += text(out.empty() ? "" : ",", key); });
  for (const ElasticRow& row : rows) {
    std::string line;
    for_each_elastic_field(row, [&](const char*, const auto& value) {
      line += (line.empty() ? "" : ",") + csv_cell(value);
    });
    out += '\n' + line;
  }
  return out + '\n';
}

}  // namespace triaccel
