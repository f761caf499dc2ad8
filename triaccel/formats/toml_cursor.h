#pragma once

#include <string>
#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/formats/toml_document.h"

namespace triaccel {

/// Keys made only of these characters need no quotes.
constexpr bool is_bare_key_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

/// Location of an error, from 1; columns count characters, not bytes.
struct TomlPlace {
  int line = 1, column = 1;
};

/// Reads TOML text character by character and tracks the location. "\r\n" reads as '\n', the end of
/// the text as kEnd.
class TomlCursor {
 public:
  static constexpr char kEnd = '\0';  // a control character: never part of a TOML text

  TomlCursor(std::string_view source, std::string_view file_name)
      : rest_(source), file_name_(file_name) {}

  char peek() const {
    if (rest_.empty()) return kEnd;
    return rest_.starts_with("\r\n") ? '\n' : rest_.front();
  }

  bool looking_at(std::string_view next) const { return rest_.starts_with(next); }

  char take() {
    const char next = peek();
    if (next == kEnd) return kEnd;
    rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : 1);
    if (next == '\n')
      place_ = {.line = place_.line + 1, .column = 1};
    else if ((static_cast<unsigned char>(rest_.empty() ? ' ' : rest_.front()) & 0xc0u) != 0x80u)
      ++place_.column;  // the character is complete: no continuation byte follows
    return next;
  }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') take();
  }

  TomlPlace place() const { return place_; }

  template <typename... Parts>
  [[noreturn]] void fail_at(TomlPlace place, const Parts&... what) const {
    throw UsageError(text(file_name_, ":", place.line, ":", place.column, ": ", what...));
  }

  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... what) const {
    fail_at(place_, what...);
  }

 private:
  std::string_view rest_;
  std::string_view file_name_;
  TomlPlace place_;
};

/// A single-line string in double quotes (with escapes) or single quotes (literal).
std::string take_toml_string(TomlCursor& cursor);

/// A boolean, number or string; `path` names the key in errors.
TomlValue take_toml_scalar(TomlCursor& cursor, const std::string& path);

}  // namespace triaccel
