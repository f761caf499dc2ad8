#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace triaccel {

/// Bytes of the UTF-8 character at the start of `text`, which is not empty; 0 if invalid.
inline std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xc2   ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0u) != 0x80u) return 0;
  // Overlong, a surrogate, or beyond the last code point.
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) > 0x9f) ||
      (lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) > 0x8f))
    return 0;
  return length;
}

/// Whether every byte belongs to a character.
bool is_utf8(std::string_view text);

/// Escapes control characters and bytes that are not UTF-8, which names and messages from outside
/// may contain, so that they cannot affect a terminal: ESC becomes "\x1b". `line_break` replaces a
/// line feed.
std::string printable(std::string_view text, std::string_view line_break = "\\n");

}  // namespace triaccel
