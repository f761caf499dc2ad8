#include "triaccel/trainer/config/config_text.h"

#include <charconv>
#include <filesystem>
#include <type_traits>
#include <variant>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/formats/hash.h"
#include "triaccel/formats/toml_document.h"
#include "triaccel/trainer/config/config_fields.h"

namespace triaccel {
namespace {

template <typename T>
constexpr std::string_view type_name() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::int64_t>) return "a whole number";
  if constexpr (std::is_same_v<T, double>) return "a number";
  return "a text in quotes";
}

std::vector<std::string> keys_of(std::string_view table) {
  RunConfig config;
  std::vector<std::string> keys;
  visit_config(config, [&](const ConfigField& field, auto&) {
    if (field.table == table) keys.push_back(field.key);
  });
  return keys;
}

std::vector<std::string> table_names() {
  RunConfig config;
  std::vector<std::string> names;
  visit_config(config, [&](const ConfigField& field, auto&) {
    if (names.empty() || names.back() != field.table) names.push_back(field.table);
  });
  return names;
}

/// Assigns a TOML value of the field's type; whole numbers also fit fields of type double.
template <typename T>
bool assign(T& into, const TomlValue& value) {
  if (const T* same = std::get_if<T>(&value)) {
    into = *same;
    return true;
  }
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      into = static_cast<double>(*whole);
      return true;
    }
  }
  return false;
}

template <typename T>
bool parse_number(std::string_view written, T& into) {
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), into);
  return error == std::errc{} && end == written.data() + written.size();
}

bool parse_value(std::string_view written, bool& into) {
  into = written == "true" || written == "on" || written == "1";
  return into || written == "false" || written == "off" || written == "0";
}
bool parse_value(std::string_view written, std::int64_t& into) {
  return parse_number(written, into);
}
bool parse_value(std::string_view written, double& into) { return parse_number(written, into); }
bool parse_value(std::string_view written, std::string& into) {
  into = written;
  return true;
}

void apply_entry(RunConfig& config, const TomlEntry& entry, std::string_view file_name) {
  const std::string place = text(file_name, ":", entry.line, ":", entry.column, ": ");
  bool found = false;
  visit_config(config, [&](const ConfigField& field, auto& value) {
    if (entry.table != field.table || entry.key != field.key) return;
    found = true;
    using T = std::remove_reference_t<decltype(value)>;
    if (!assign(value, entry.value))
      throw UsageError(text(place, "'", entry.key, "' must be ", type_name<T>()));
  });
  if (found) return;
  const std::vector<std::string> keys = keys_of(entry.table);
  if (keys.empty())
    throw UsageError(
        text(place, "unknown table [", entry.table, "]", suggestion(entry.table, table_names())));
  throw UsageError(text(place, "unknown key '", entry.key, "' in [", entry.table, "]",
                        suggestion(entry.key, keys)));
}

std::vector<TomlEntry> entries_of(const RunConfig& config) {
  std::vector<TomlEntry> entries;
  visit_config(config, [&](const ConfigField& field, const auto& value) {
    entries.push_back({.table = field.table, .key = field.key, .value = value});
  });
  return entries;
}

bool is_number(std::string_view written) {
  double number = 0;
  return parse_number(written, number);
}

bool is_number_field(const ConfigField& wanted) {
  const RunConfig config;
  bool number = false;
  visit_config(config, [&](const ConfigField& field, const auto& value) {
    if (std::string_view(field.flag) == wanted.flag)
      number = !std::is_same_v<std::remove_cvref_t<decltype(value)>, std::string>;
  });
  return number;
}

}  // namespace

void apply_toml(RunConfig& config, std::string_view toml, std::string_view file_name) {
  for (const TomlEntry& entry : parse_toml(toml, file_name)) apply_entry(config, entry, file_name);
}

void set_field(RunConfig& config, std::string_view table, std::string_view key,
               std::string_view written, std::string_view who) {
  visit_config(config, [&](const ConfigField& field, auto& value) {
    if (table != field.table || key != field.key) return;
    using T = std::remove_reference_t<decltype(value)>;
    require(parse_value(written, value), who, "'", written, "' is not ", type_name<T>());
  });
}

void apply_override(RunConfig& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  require(equals != std::string_view::npos && equals > 0, "override", "'", assignment,
          "' is neither an option nor key=value");
  const std::string_view path = assignment.substr(0, equals);
  const std::size_t dot = path.find('.');
  std::vector<ConfigField> matches;
  std::vector<std::string> known;
  visit_config(config, [&](const ConfigField& field, auto&) {
    const std::string full = text(field.table, ".", field.key);
    known.push_back(dot == std::string_view::npos ? field.key : full);
    if (path == known.back()) matches.push_back(field);
  });
  require(!matches.empty(), "override", "unknown key '", path, "'", suggestion(path, known));
  const std::string_view written = assignment.substr(equals + 1);
  // `batch=64` is the number, `batch=off` the switch of the same name.
  std::erase_if(matches, [&](const ConfigField& field) {
    return matches.size() > 1 && is_number_field(field) != is_number(written);
  });
  require(matches.size() == 1, "override", "'", path, "' is in several tables; write table.", path);
  set_field(config, matches[0].table, matches[0].key, written, path);
}

std::string to_toml(const RunConfig& config) { return to_toml(entries_of(config)); }

std::uint64_t config_hash(const RunConfig& config) {
  std::vector<TomlEntry> entries = entries_of(config);
  std::erase_if(entries, [](const TomlEntry& entry) {
    return entry.table == "run" || entry.key == "root" || entry.key == "init_from" ||
           entry.key == "budget";
  });
  // A run keeps its own copy of the plans it replays, and may be moved.
  for (TomlEntry& entry : entries)
    if (entry.key == "replay")
      entry.value = std::filesystem::path(std::get<std::string>(entry.value)).filename().string();
  const std::string toml = to_toml(entries);
  return xxh3(toml);
}

}  // namespace triaccel
