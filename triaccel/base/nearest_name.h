#pragma once

#include <span>
#include <string>
#include <string_view>

namespace triaccel {

/// The known name closest to what was written, or "" when none is a likely typo: one edit for every
/// four letters, and at least one.
std::string nearest_name(std::string_view written, std::span<const std::string> known);

/// "; did you mean 'batch'?" or, without a close name, "; known: a, b, c".
std::string suggestion(std::string_view written, std::span<const std::string> known);

}  // namespace triaccel
