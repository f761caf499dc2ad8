#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace triaccel {

/// "" when every element is closed in order and every attribute is quoted; otherwise the place.
inline std::string first_fault(const std::string& html) {
  std::vector<std::string> open;
  std::size_t at = html.find("<html");
  while ((at = html.find('<', at)) != std::string::npos) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return "unclosed tag at " + html.substr(at, 60);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /\n", 1));
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || tag.find('<') != std::string::npos)
      return "broken tag <" + tag + ">";
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return "unexpected <" + tag + ">";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
      // Scripts and styles hold no markup.
      if (name == "script" || name == "style") {
        at = html.find("</" + name + ">", end);
        continue;
      }
    }
    at = end;
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

}  // namespace triaccel
