#pragma once

#include <fmt/format.h>

#include <string>

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

}  // namespace triaccel
