#include "triaccel/formats/toml_cursor.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace triaccel {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xe0 | code >> 12);
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
    }
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

void take_escape(TomlCursor& cursor, std::string& out) {
  const TomlPlace start = cursor.place();
  cursor.take();  // the backslash
  const char kind = cursor.take();
  switch (kind) {
    case 'b':
      out += '\b';
      return;
    case 't':
      out += '\t';
      return;
    case 'n':
      out += '\n';
      return;
    case 'f':
      out += '\f';
      return;
    case 'r':
      out += '\r';
      return;
    case '"':
      out += '"';
      return;
    case '\\':
      out += '\\';
      return;
    case 'u':
    case 'U':
      break;
    default:
      cursor.fail_at(start, "unknown escape; write a backslash as \\\\ or use '...'");
  }
  std::uint32_t code = 0;
  for (int i = 0; i < (kind == 'u' ? 4 : 8); ++i) {
    const int digit = hex_digit(cursor.take());
    if (digit < 0) cursor.fail_at(start, "\\u takes 4 hexadecimal digits, \\U takes 8");
    code = code << 4 | static_cast<std::uint32_t>(digit);
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    cursor.fail_at(start, "not a valid code point");
  append_utf8(out, code);
}

// The rest of a string in triple quotes. Up to two quotes may stand right before the closing three.
std::string take_long_string(TomlCursor& cursor, char quote, TomlPlace start) {
  std::string out;
  if (cursor.peek() == '\n') cursor.take();
  for (;;) {
    const char next = cursor.peek();
    if (next == TomlCursor::kEnd) cursor.fail_at(start, "unterminated string");
    if (next == quote) {
      int quotes = 0;
      for (; quotes < 5 && cursor.peek() == quote; ++quotes) cursor.take();
      if (quotes >= 3) return out.append(static_cast<std::size_t>(quotes - 3), quote);
      out.append(static_cast<std::size_t>(quotes), quote);
    } else if (next == '\\' && quote == '"') {
      TomlCursor ahead = cursor;
      ahead.take();
      ahead.skip_blanks();
      if (ahead.peek() != '\n') {
        take_escape(cursor, out);
        continue;
      }
      cursor = ahead;  // a backslash at a line's end joins it to the next word
      while (cursor.peek() == '\n' || cursor.peek() == ' ' || cursor.peek() == '\t') cursor.take();
    } else {
      out.push_back(cursor.take());
    }
  }
}

// The digits without their underscores, each of which must stand between two digits.
std::optional<std::string> without_underscores(std::string_view written, int base) {
  const auto digit = [&](char c) { return base == 16 ? hex_digit(c) >= 0 : is_digit(c); };
  std::string digits;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] != '_') {
      digits.push_back(written[i]);
      continue;
    }
    if (i == 0 || i + 1 == written.size() || !digit(written[i - 1]) || !digit(written[i + 1]))
      return std::nullopt;
  }
  return digits;
}

// Digits, without a zero in front unless it is all there is.
bool is_whole(std::string_view digits) {
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) return false;
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_float(std::string_view digits) {
  const std::size_t mark = digits.find_first_of("eE");
  if (mark != std::string_view::npos) {
    std::string_view exponent = digits.substr(mark + 1);
    if (exponent.starts_with('+') || exponent.starts_with('-')) exponent.remove_prefix(1);
    if (exponent.empty() || exponent.find_first_not_of("0123456789") != std::string_view::npos)
      return false;
    digits = digits.substr(0, mark);
  }
  const std::size_t point = digits.find('.');
  if (point == std::string_view::npos) return mark != std::string_view::npos && is_whole(digits);
  const std::string_view fraction = digits.substr(point + 1);
  return is_whole(digits.substr(0, point)) && !fraction.empty() &&
         fraction.find_first_not_of("0123456789") == std::string_view::npos;
}

template <typename Number, typename... Base>
Number converted(const TomlCursor& cursor, TomlPlace place, const std::string& digits,
                 Base... base) {
  Number value{};
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base...);
  if (error == std::errc::result_out_of_range)
    cursor.fail_at(place, "the number does not fit in 64 bits");
  if (error != std::errc{} || stop != end) cursor.fail_at(place, "not a number");
  return value;
}

int base_of(std::string_view word) {
  if (word.starts_with("0x")) return 16;
  if (word.starts_with("0o")) return 8;
  if (word.starts_with("0b")) return 2;
  return 10;
}

bool is_date_or_time(std::string_view word) {
  const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  return (digits == 4 && word.substr(4).starts_with('-')) ||
         (digits == 2 && word.substr(2).starts_with(':'));
}

TomlValue number(const TomlCursor& cursor, TomlPlace place, const std::string& word,
                 const std::string& path) {
  std::string_view unsigned_word = word;
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) unsigned_word.remove_prefix(1);
  if (unsigned_word == "inf" || unsigned_word == "nan") {
    const double value = unsigned_word == "inf" ? std::numeric_limits<double>::infinity()
                                                : std::numeric_limits<double>::quiet_NaN();
    return std::copysign(value, negative ? -1.0 : 1.0);
  }
  if (const int base = base_of(word); base != 10) {
    const auto digits = without_underscores(std::string_view(word).substr(2), base);
    // A minus sign here would be taken by from_chars.
    if (!digits || digits->empty() || hex_digit(digits->front()) < 0)
      cursor.fail_at(place, "not a number");
    return converted<std::int64_t>(cursor, place, *digits, base);
  }
  if (is_date_or_time(word))
    cursor.fail_at(place, "'", path, "' is a date or time; write it in quotes");
  const auto digits = without_underscores(unsigned_word, 10);
  const std::string sign = negative ? "-" : "";
  if (digits && is_whole(*digits)) return converted<std::int64_t>(cursor, place, sign + *digits);
  if (digits && is_float(*digits)) return converted<double>(cursor, place, sign + *digits);
  if (is_digit(word[0]) || word[0] == '+' || word[0] == '-' || word[0] == '.')
    cursor.fail_at(place, "not a number: ", word);
  cursor.fail_at(place, "a string needs quotes: ", path, " = \"", word, "\"");
}

}  // namespace

std::string take_toml_string(TomlCursor& cursor) {
  const TomlPlace start = cursor.place();
  const char quote = cursor.take();
  std::string out;
  while (cursor.peek() != quote) {
    if (cursor.peek() == TomlCursor::kEnd || cursor.peek() == '\n')
      cursor.fail_at(start, "unterminated string");
    if (cursor.peek() == '\\' && quote == '"')
      take_escape(cursor, out);
    else
      out.push_back(cursor.take());
  }
  cursor.take();
  return out;
}

TomlValue take_toml_scalar(TomlCursor& cursor, const std::string& path) {
  const TomlPlace start = cursor.place();
  for (const char quote : {'"', '\''}) {
    if (cursor.peek() != quote) continue;
    if (!cursor.looking_at(std::string(3, quote))) return take_toml_string(cursor);
    for (int i = 0; i < 3; ++i) cursor.take();
    return take_long_string(cursor, quote, start);
  }
  if (cursor.peek() == '[')
    cursor.fail("'", path, "' is an array; a key holds a boolean, number or string");
  if (cursor.peek() == '{')
    cursor.fail("'", path, "' is an inline table; write its keys below [", path, "]");
  std::string word;
  constexpr std::string_view word_ends("\0\n\t #,=[]{}\"'", 13);
  while (word_ends.find(cursor.peek()) == std::string_view::npos) word.push_back(cursor.take());
  if (word.empty()) cursor.fail_at(start, "'", path, "' has no value");
  if (word == "true") return true;
  if (word == "false") return false;
  return number(cursor, start, word, path);
}

}  // namespace triaccel
