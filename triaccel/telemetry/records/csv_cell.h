#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace triaccel {

/// A value as one cell of a CSV line; text is quoted and stays on its line.
inline std::string csv_cell(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"') out += '"';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out + '"';
}

template <typename Number>
std::string csv_cell(const Number& value) {
  return fmt::format("{}", value);
}

/// A list as one cell, with blanks between.
inline std::string csv_cell(const std::vector<double>& values) {
  return csv_cell(fmt::format("{}", fmt::join(values, " ")));
}

}  // namespace triaccel
