#pragma once

#include <string_view>

namespace triaccel {

/// "0.1.0"
std::string_view version();

/// The commit this was built from, with "-changed" when the tree differed from it; "unknown"
/// outside a repository.
std::string_view build_commit();

}  // namespace triaccel
