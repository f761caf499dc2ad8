#include "triaccel/telemetry/records/json_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

const nlohmann::json kEmptyObject = nlohmann::json::object();
const nlohmann::json kEmptyArray = nlohmann::json::array();

}  // namespace

nlohmann::json JsonFields::parse(std::string_view json, std::string_view where) {
  nlohmann::json parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object())
    throw StorageError(text(where, ": this is no JSON object; is the file damaged?"));
  return parsed;
}

JsonFields::JsonFields(const nlohmann::json& object, std::string_view where)
    : object_(object), where_(where) {}

void JsonFields::reject(const char* key, std::string_view expected) const {
  throw StorageError(text(where_, ": '", key, "' should be ", expected, "; is the file damaged?"));
}

void JsonFields::read(const char* key, std::int64_t& value) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return;
  const bool fits = found->is_number_unsigned()
                        ? found->get<std::uint64_t>() <=
                              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                        : found->is_number_integer();
  if (!fits) reject(key, "a whole number");
  value = found->get<std::int64_t>();
}

void JsonFields::read(const char* key, std::uint64_t& value) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return;
  if (!found->is_number_unsigned()) reject(key, "a whole number that is not negative");
  value = found->get<std::uint64_t>();
}

void JsonFields::read(const char* key, double& value) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return;
  if (!found->is_number() && !found->is_null()) reject(key, "a number");
  value = found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
}

void JsonFields::read(const char* key, float& value) const {
  double wide = value;
  read(key, wide);
  value = static_cast<float>(wide);
}

void JsonFields::read(const char* key, bool& value) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return;
  if (!found->is_boolean()) reject(key, "true or false");
  value = found->get<bool>();
}

void JsonFields::read(const char* key, std::string& value) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return;
  if (!found->is_string()) reject(key, "a text");
  value = found->get<std::string>();
}

void JsonFields::read(const char* key, std::vector<std::string>& value) const {
  value.clear();
  for (const nlohmann::json& entry : array(key)) {
    if (!entry.is_string()) reject(key, "a list of texts");
    value.push_back(entry.get<std::string>());
  }
}

void JsonFields::read(const char* key, std::vector<float>& value) const {
  value.clear();
  for (const nlohmann::json& entry : array(key))
    value.push_back(static_cast<float>(number_in(entry, key, *this)));
}

void JsonFields::read(const char* key, std::vector<double>& value) const {
  value.clear();
  for (const nlohmann::json& entry : array(key)) value.push_back(number_in(entry, key, *this));
}

JsonFields JsonFields::object(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return {kEmptyObject, where_};
  if (!found->is_object()) reject(key, "an object");
  return {*found, where_};
}

const nlohmann::json& JsonFields::array(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return kEmptyArray;
  if (!found->is_array()) reject(key, "a list");
  return *found;
}

double number_in(const nlohmann::json& entry, const char* key, const JsonFields& fields) {
  if (entry.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!entry.is_number()) fields.reject(key, "a list of numbers");
  return entry.get<double>();
}

double short_double(float value) {
  if (!std::isfinite(value)) return value;
  const std::string digits = fmt::format("{}", value);
  double shortest = value;
  std::from_chars(digits.data(), digits.data() + digits.size(), shortest);
  return static_cast<float>(shortest) == value ? shortest : value;
}

std::string dump_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace triaccel
