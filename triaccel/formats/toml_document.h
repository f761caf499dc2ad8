#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace triaccel {

using TomlValue = std::variant<bool, std::int64_t, double, std::string>;

/// `key = value` below `[table]`; the table of keys before the first header is "".
struct TomlEntry {
  std::string table = {};
  std::string key = {};
  TomlValue value = {};
  int line = 0, column = 0;  // of the key, from 1
};

/// Parses the entries of a TOML text in order. Supports what a run configuration needs: one level
/// of tables; booleans, integers, floats and strings. Anything else, and every syntax error, throws
/// UsageError "file:line:column: what".
std::vector<TomlEntry> parse_toml(std::string_view source, std::string_view file_name);

/// Entries as TOML, tables in order of first appearance; parse_toml restores the same values
/// exactly.
std::string to_toml(std::span<const TomlEntry> entries);

}  // namespace triaccel
