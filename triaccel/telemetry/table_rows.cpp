#include "triaccel/telemetry/table_rows.h"

#include <algorithm>
#include <tuple>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/appended_file.h"
#include "triaccel/telemetry/csv_cell.h"
#include "triaccel/telemetry/efficiency_score.h"
#include "triaccel/telemetry/folder_lock.h"
#include "triaccel/telemetry/json_fields.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxRowsBytes = std::int64_t{64} << 20;

/// Calls `field(key, member)` for every field but the table: the one list that writing JSON, CSV
/// and reading share.
template <typename Row, typename Field>
void for_each_row_field(Row& row, Field&& field) {
  field("model", row.model);
  field("stem", row.stem);
  field("data", row.data);
  field("method", row.method);
  field("configuration", row.configuration);
  field("seed", row.seed);
  field("epochs", row.epochs);
  field("accuracy", row.accuracy);
  field("seconds_per_epoch", row.seconds_per_epoch);
  field("peak_allocated_mb", row.peak_allocated_mb);
  field("peak_reserved_mb", row.peak_reserved_mb);
  field("score", row.score);
  field("commit", row.commit);
  field("device", row.device);
  field("batch_final", row.batch_final);
  field("learning_rate", row.learning_rate);
  field("weight_decay", row.weight_decay);
  field("timed", row.timed);
}

auto key_of(const TableRow& row) {
  return std::tie(row.table, row.model, row.stem, row.data, row.method, row.configuration, row.seed,
                  row.epochs);
}

TableRow row_from(const nlohmann::json& json, std::string_view where) {
  if (!json.is_object()) throw StorageError(text(where, " is no object; is the file damaged?"));
  const JsonFields fields(json, where);
  TableRow row;
  std::string table(name_of(row.table));
  fields.read("table", table);
  if (table == name_of(PaperTable::Table2))
    row.table = PaperTable::Table2;
  else if (table != name_of(PaperTable::Table1))
    fields.reject("table", "table1 or table2");
  for_each_row_field(row, [&](const char* key, auto& value) { fields.read(key, value); });
  return row;
}

}  // namespace

TableRow table_row(const RunSummary& summary) {
  const auto megabytes = [&](std::int64_t peak) {
    return static_cast<double>(peak - summary.data_bytes) / 1e6;
  };
  return {.model = summary.model,
          .stem = summary.stem,
          .data = summary.data,
          .method = summary.method,
          .seed = summary.seed,
          .epochs = summary.epochs,
          .accuracy = summary.accuracy,
          .seconds_per_epoch = summary.seconds_per_epoch,
          .peak_allocated_mb = megabytes(summary.peak_bytes),
          .peak_reserved_mb = megabytes(summary.peak_reserved_bytes),
          .score = efficiency_score(summary),
          .commit = summary.commit,
          .device = summary.device,
          .batch_final = summary.batch_final};
}

bool same_run(const TableRow& a, const TableRow& b) { return key_of(a) == key_of(b); }

void put_row(std::vector<TableRow>& rows, const TableRow& row) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const TableRow& other) { return same_run(other, row); });
  if (found == rows.end())
    rows.push_back(row);
  else
    *found = row;
}

std::vector<TableRow> read_rows(const fs::path& path) {
  std::vector<TableRow> rows;
  if (!fs::exists(path)) return rows;
  const nlohmann::json parsed = nlohmann::json::parse(read_text_file(path, kMaxRowsBytes), nullptr,
                                                      /*allow_exceptions=*/false);
  if (!parsed.is_array())
    throw StorageError(text(path.string(), ": this is no JSON list; is the file damaged?"));
  for (std::size_t i = 0; i < parsed.size(); ++i)
    rows.push_back(row_from(parsed[i], text(path.string(), ": row ", i + 1)));
  return rows;
}

std::vector<TableRow> record_rows(const fs::path& path, std::span<const TableRow> rows) {
  const FolderLock lock(path.has_parent_path() ? path.parent_path() : ".");
  std::vector<TableRow> all = read_rows(path);
  for (const TableRow& row : rows) put_row(all, row);
  write_atomically(path, rows_json(all));
  return all;
}

std::string rows_json(std::span<const TableRow> rows) {
  std::string out = "[";
  for (const TableRow& row : rows) {
    nlohmann::ordered_json json = {{"table", name_of(row.table)}};
    for_each_row_field(row, [&](const char* key, const auto& value) { json[key] = value; });
    out += (out.size() > 1 ? ",\n " : "\n ") + dump_line(json);
  }
  return out + "\n]\n";
}

std::string rows_csv(std::span<const TableRow> rows) {
  std::string out = "table";
  const TableRow none;
  for_each_row_field(none, [&](const char* key, const auto&) { out += text(",", key); });
  for (const TableRow& row : rows) {
    out += text("\n", name_of(row.table));
    for_each_row_field(row, [&](const char*, const auto& value) { out += "," + csv_cell(value); });
  }
  return out + '\n';
}

}  // namespace triaccel
