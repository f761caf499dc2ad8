#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace triaccel {

/// Typed access to a JSON object. A missing key leaves the default, so that files of older versions
/// can be read; a value of the wrong type throws StorageError naming `where` and the key.
class JsonFields {
 public:
  /// Parses `json`, which must be an object.
  static nlohmann::json parse(std::string_view json, std::string_view where);

  JsonFields(const nlohmann::json& object, std::string_view where);

  bool has(const char* key) const { return object_.contains(key); }
  void read(const char* key, std::int64_t& value) const;
  void read(const char* key, std::uint64_t& value) const;
  void read(const char* key, double& value) const;  // null: NaN
  void read(const char* key, float& value) const;   // null: NaN
  void read(const char* key, bool& value) const;
  void read(const char* key, std::string& value) const;
  void read(const char* key, std::vector<std::string>& value) const;
  void read(const char* key, std::vector<float>& value) const;
  void read(const char* key, std::vector<double>& value) const;
  /// The object under a key; an empty one when the key is missing.
  JsonFields object(const char* key) const;
  /// The array under a key; an empty one when the key is missing.
  const nlohmann::json& array(const char* key) const;

  [[noreturn]] void reject(const char* key, std::string_view expected) const;

 private:
  const nlohmann::json& object_;
  std::string_view where_;
};

/// A number inside an array under `key`; null is NaN.
double number_in(const nlohmann::json& entry, const char* key, const JsonFields& fields);

/// The double with the fewest digits that round-trips to `value`: 0.1, not 0.10000000149011612.
double short_double(float value);

/// One line in ASCII, keys in the given order; invalid UTF-8 is replaced.
std::string dump_line(const nlohmann::ordered_json& json);

/// Calls `visit(line, where)` for every line of a JSONL file in order; `where` is "file:line" for
/// messages. An incomplete last line, as a killed process may leave, is skipped; returns true in
/// that case. Throws StorageError if the file cannot be read or is larger than `max_bytes`;
/// exceptions of `visit` pass through.
bool for_each_json_line(
    const std::filesystem::path& path, std::int64_t max_bytes,
    const std::function<void(const std::string& line, const std::string& where)>& visit);

}  // namespace triaccel
