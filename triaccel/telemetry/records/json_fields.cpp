#include "triaccel/telemetry/records/json_fields.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/appended_file.h"

namespace triaccel {
namespace {

const nlohmann::json kEmptyObject = nlohmann::json::object();
const nlohmann::json kEmptyArray = nlohmann::json::array();

constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

}  // namespace

nlohmann::json JsonFields::parse(std::string_view json, std::string_view where) {
  nlohmann::json parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object())
    throw StorageError(text(where, ": not a JSON object; is the file damaged?"));
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
  if (!fits) reject(key, "an integer");
  value = found->get<std::int64_t>();
}

void JsonFields::read(const char* key, std::uint64_t& value) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return;
  if (!found->is_number_unsigned()) reject(key, "a non-negative integer");
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
  if (!found->is_string()) reject(key, "a string");
  value = found->get<std::string>();
}

void JsonFields::read(const char* key, std::vector<std::string>& value) const {
  value.clear();
  for (const nlohmann::json& entry : array(key)) {
    if (!entry.is_string()) reject(key, "a list of strings");
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
  return json.dump(-1, ' ', /*ensure_ascii=*/true,
                   nlohmann::ordered_json::error_handler_t::replace);
}

bool for_each_json_line(
    const std::filesystem::path& path, std::int64_t max_bytes,
    const std::function<void(const std::string& line, const std::string& where)>& visit) {
  require_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw StorageError(text("cannot open ", path.string(), ": ", std::strerror(errno)));
  std::string line;
  std::string block(65536, '\0');
  std::int64_t number = 1;
  std::int64_t bytes = 0;
  const auto where = [&] { return text(path.string(), ":", number); };
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    std::string_view rest(block.data(), static_cast<std::size_t>(file.gcount()));
    bytes += file.gcount();
    if (bytes > max_bytes)
      throw StorageError(
          text(path.string(), " is larger than ", byte_text(max_bytes), "; is it the right file?"));
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      line.append(rest.substr(0, end));
      visit(line, where());
      line.clear();
      ++number;
      rest.remove_prefix(end + 1);
    }
    line.append(rest);
    if (line.size() > kMaxLineBytes)
      throw StorageError(text(where(), ": longer than ",
                              byte_text(static_cast<std::int64_t>(kMaxLineBytes)),
                              "; the file was not written by this program"));
  }
  if (file.bad()) throw StorageError(text("cannot read ", path.string(), ": ", std::strerror(EIO)));
  if (line.empty()) return false;
  if (!nlohmann::json::accept(line)) return true;
  visit(line, where());
  return false;
}

}  // namespace triaccel
