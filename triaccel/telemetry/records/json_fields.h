#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace triaccel {

/// Typed access to one JSON object of our own files. A missing key leaves the default, so that
/// files of an older version can be read; a value of another type throws StorageError, which names
/// `where` and the key.
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

/// The double with the fewest digits that reads back as `value`: 0.1 instead of
/// 0.10000000149011612.
double short_double(float value);

/// One line, keys in the order given; bytes that are not UTF-8 are replaced.
std::string dump_line(const nlohmann::ordered_json& json);

}  // namespace triaccel
