#include "triaccel/telemetry/compression_rows.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/appended_file.h"
#include "triaccel/telemetry/csv_cell.h"
#include "triaccel/telemetry/folder_lock.h"
#include "triaccel/telemetry/json_fields.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostRowBytes = std::int64_t{64} << 20;

/// Calls `field(key, member)` for every field: the one list that writing JSON, CSV and reading
/// share.
template <typename Row, typename Field>
void for_each_compression_field(Row& row, Field&& field) {
  field("model", row.model);
  field("image_size", row.image_size);
  field("batch", row.batch);
  field("codec", row.codec);
  field("held_ratio", row.held_ratio);
  field("peak_ratio", row.peak_ratio);
  field("accuracy", row.accuracy);
  field("accuracy_drop", row.accuracy_drop);
  field("throughput_ratio_to_fp32", row.throughput_ratio_to_fp32);
  field("commit", row.commit);
  field("data", row.data);
  field("epochs", row.epochs);
  field("seed", row.seed);
  field("target_ratio", row.target_ratio);
  field("held_bytes", row.held_bytes);
  field("fp32_bytes", row.fp32_bytes);
  field("passed_bytes", row.passed_bytes);
  field("peak_bytes", row.peak_bytes);
  field("budget_bytes", row.budget_bytes);
  field("largest_batch", row.largest_batch);
  field("samples_per_second", row.samples_per_second);
  field("timed", row.timed);
  field("gradient_error", row.gradient_error);
  field("gradient_bias", row.gradient_bias);
  field("gradient_cosine", row.gradient_cosine);
  field("tf32", row.tf32);
  field("device", row.device);
}

}  // namespace

bool same_run(const CompressionRow& a, const CompressionRow& b) {
  const auto key = [](const CompressionRow& row) {
    return std::tie(row.model, row.image_size, row.batch, row.codec, row.data, row.epochs, row.seed,
                    row.device);
  };
  const bool same_target = a.target_ratio == b.target_ratio ||
                           (std::isnan(a.target_ratio) && std::isnan(b.target_ratio));
  return key(a) == key(b) && same_target;
}

std::vector<CompressionRow> read_compression_rows(const fs::path& path) {
  std::vector<CompressionRow> rows;
  if (!fs::exists(path)) return rows;
  const nlohmann::json parsed = nlohmann::json::parse(read_text_file(path, kMostRowBytes), nullptr,
                                                      /*allow_exceptions=*/false);
  if (!parsed.is_array())
    throw StorageError(text(path.string(), ": this is no JSON list; is the file damaged?"));
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    const std::string where = text(path.string(), ": row ", i + 1);
    if (!parsed[i].is_object())
      throw StorageError(text(where, " is no object; is the file damaged?"));
    const JsonFields fields(parsed[i], where);
    CompressionRow& row = rows.emplace_back();
    for_each_compression_field(row, [&](const char* key, auto& value) { fields.read(key, value); });
  }
  return rows;
}

std::vector<CompressionRow> record_compression_rows(const fs::path& path,
                                                    std::span<const CompressionRow> rows) {
  const FolderLock lock(path.has_parent_path() ? path.parent_path() : ".");
  std::vector<CompressionRow> all = read_compression_rows(path);
  for (const CompressionRow& row : rows) {
    const auto found =
        std::ranges::find_if(all, [&](const auto& other) { return same_run(other, row); });
    if (found == all.end())
      all.push_back(row);
    else
      *found = row;
  }
  write_atomically(path, compression_rows_json(all));
  return all;
}

std::string compression_rows_json(std::span<const CompressionRow> rows) {
  std::string out = "[";
  for (const CompressionRow& row : rows) {
    nlohmann::ordered_json json;
    for_each_compression_field(row, [&](const char* key, const auto& value) { json[key] = value; });
    out += (out.size() > 1 ? ",\n " : "\n ") + dump_line(json);
  }
  return out + "\n]\n";
}

std::string compression_rows_csv(std::span<const CompressionRow> rows) {
  std::string out;
  const CompressionRow none;
  for_each_compression_field(
      none, [&](const char* key, const auto&) { out += text(out.empty() ? "" : ",", key); });
  for (const CompressionRow& row : rows) {
    std::string line;
    for_each_compression_field(row, [&](const char*, const auto& value) {
      line += (line.empty() ? "" : ",") + csv_cell(value);
    });
    out += '\n' + line;
  }
  return out + '\n';
}

}  // namespace triaccel
