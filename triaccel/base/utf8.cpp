#include "triaccel/base/utf8.h"

#include <algorithm>

namespace triaccel {
namespace {

/// Two digits.
std::string hexadecimal(unsigned char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  return {digits[byte >> 4], digits[byte & 15]};
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text, std::string_view line_break) {
  std::string out;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    if (byte == '\n') {
      out += line_break;
    } else if (byte < 0x20 || byte == 0x7f || length == 0) {
      out += "\\x" + hexadecimal(byte);
    } else if (byte == 0xC2 && static_cast<unsigned char>(text[1]) <= 0x9F) {  // U+0080 to U+009F
      out += "\\u00" + hexadecimal(static_cast<unsigned char>(text[1]));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

}  // namespace triaccel
