#include "triaccel/telemetry/report/html_text.h"

#include "triaccel/base/utf8.h"

namespace triaccel {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool continues(std::string_view text, std::size_t i) {
  return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = utf8_length(text.substr(i));
    const char c = text[i];
    if (bytes == 0) {
      out += kReplacement;
      ++i;
      continue;
    }
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (bytes == 1 && static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      out += ' ';
    } else {
      out += text.substr(i, bytes);
    }
    i += bytes;
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (continues(text, i)) continue;
    if (++characters > most) {
      std::size_t end = i;
      while (end > 0 && continues(text, end - 1)) --end;
      return std::string(text.substr(0, end > 0 ? end - 1 : 0)) + "\xE2\x80\xA6";
    }
  }
  return std::string(text);
}

}  // namespace triaccel
