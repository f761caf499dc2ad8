#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/csv_cell.h"
#include "triaccel/telemetry/records/folder_lock.h"
#include "triaccel/telemetry/records/json_fields.h"

namespace triaccel {

/// Rows of one kind as a result.json holds them: a JSON list with one row a line.
///
/// `Fields::visit(row, field)` calls `field(key, member)` for every member: the one list that
/// writing JSON and CSV and reading share. What is recorded has a `same_run(a, b)` beside its row;
/// an enum is written by its `name_of` and read by its `read_name(name, value)`, which answers
/// with what the names are where it does not know one.
template <typename Row, typename Fields>
class RowList {
 public:
  /// None when there is no such file. Throws StorageError naming file and row.
  static std::vector<Row> read(const std::filesystem::path& path) {
    constexpr std::int64_t most_bytes = std::int64_t{64} << 20;
    std::vector<Row> rows;
    if (!std::filesystem::exists(path)) return rows;
    const nlohmann::json parsed = nlohmann::json::parse(read_text_file(path, most_bytes), nullptr,
                                                        /*allow_exceptions=*/false);
    if (!parsed.is_array())
      throw StorageError(text(path.string(), ": this is no JSON list; is the file damaged?"));
    for (std::size_t i = 0; i < parsed.size(); ++i)
      rows.push_back(row_from(parsed[i], text(path.string(), ": row ", i + 1)));
    return rows;
  }

  /// Puts rows into the file, those of the same run in their place, all or nothing, and answers
  /// with all it then holds. Processes that record into one folder wait for each other.
  static std::vector<Row> record(const std::filesystem::path& path, std::span<const Row> rows) {
    const FolderLock lock(path.has_parent_path() ? path.parent_path() : ".");
    std::vector<Row> all = read(path);
    for (const Row& row : rows) {
      const auto found =
          std::ranges::find_if(all, [&](const Row& other) { return same_run(other, row); });
      if (found == all.end())
        all.push_back(row);
      else
        *found = row;
    }
    write_atomically(path, json(all));
    return all;
  }

  static std::string json(std::span<const Row> rows) {
    std::string out = "[";
    for (const Row& row : rows) {
      nlohmann::ordered_json object;
      Fields::visit(row, [&](const char* key, const auto& value) { object[key] = shown(value); });
      out += (out.size() > 1 ? ",\n " : "\n ") + dump_line(object);
    }
    return out + "\n]\n";
  }

  /// The same columns under a line of their keys.
  static std::string csv(std::span<const Row> rows) {
    std::string out;
    const Row none;
    Fields::visit(none,
                  [&](const char* key, const auto&) { out += text(out.empty() ? "" : ",", key); });
    for (const Row& row : rows) {
      std::string line;
      Fields::visit(row, [&](const char*, const auto& value) {
        line += (line.empty() ? "" : ",") + csv_cell(shown(value));
      });
      out += '\n' + line;
    }
    return out + '\n';
  }

 private:
  template <typename Value>
  static decltype(auto) shown(const Value& value) {
    if constexpr (std::is_enum_v<Value>)
      return std::string(name_of(value));
    else
      return (value);
  }

  static Row row_from(const nlohmann::json& json, const std::string& where) {
    if (!json.is_object()) throw StorageError(text(where, " is no object; is the file damaged?"));
    const JsonFields fields(json, where);
    Row row;
    Fields::visit(row, [&]<typename Value>(const char* key, Value& value) {
      if constexpr (std::is_enum_v<Value>) {
        std::string name(name_of(value));
        fields.read(key, name);
        if (const std::string_view names = read_name(name, value); !names.empty())
          fields.reject(key, names);
      } else {
        fields.read(key, value);
      }
    });
    return row;
  }
};

}  // namespace triaccel
