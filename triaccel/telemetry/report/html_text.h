#pragma once

#include <string>
#include <string_view>

namespace triaccel {

/// Text for HTML or SVG, between tags or inside a quoted attribute. Control characters and bytes
/// that are not UTF-8 are replaced.
std::string html_escaped(std::string_view text);

/// The first `most` characters (not bytes), with an ellipsis when some were cut.
std::string shortened(std::string_view text, std::size_t most);

}  // namespace triaccel
