#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>

#include "triaccel/base/error.h"
#include "triaccel/formats/toml_cursor.h"
#include "triaccel/formats/toml_document.h"

namespace triaccel {
namespace {

std::string in_quotes(std::string_view written) {
  std::string out = "\"";
  for (const char c : written) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          std::array<char, 8> code{};
          std::snprintf(code.data(), code.size(), "\\u%04X", static_cast<unsigned>(c));
          out += code.data();
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

struct ValueWriter {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(const std::string& value) const { return in_quotes(value); }
  std::string operator()(double value) const {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    std::array<char, 32> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    ensure(error == std::errc{}, "32 characters hold the shortest form of any double");
    std::string out(digits.data(), end);
    if (out.find_first_of(".e") == std::string::npos) out += ".0";
    return out;
  }
};

std::string name_of(const std::string& key) {
  return !key.empty() && std::ranges::all_of(key, is_bare_key_character) ? key : in_quotes(key);
}

}  // namespace

std::string to_toml(std::span<const TomlEntry> entries) {
  std::vector<std::string> bodies = {""};  // keys without a table must come first
  std::map<std::string, std::size_t> body_of = {{"", 0}};
  for (const TomlEntry& entry : entries) {
    const auto [found, is_new] = body_of.try_emplace(entry.table, bodies.size());
    if (is_new) bodies.push_back(text("[", name_of(entry.table), "]\n"));
    bodies[found->second] +=
        text(name_of(entry.key), " = ", std::visit(ValueWriter{}, entry.value), "\n");
  }
  std::string out;
  for (const std::string& body : bodies) {
    if (!out.empty()) out += "\n";
    out += body;
  }
  return out;
}

}  // namespace triaccel
