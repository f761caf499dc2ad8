#pragma once

#include <string>
#include <string_view>

namespace triaccel {

/// Escapes text for HTML or SVG content and quoted attributes. Control characters and invalid UTF-8
/// are replaced.
std::string html_escaped(std::string_view text);

/// The first `most` characters (not bytes), with an ellipsis if truncated.
std::string shortened(std::string_view text, std::size_t most);

}  // namespace triaccel
