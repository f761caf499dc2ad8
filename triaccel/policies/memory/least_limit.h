#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace triaccel {

/// The least limit is looked for in steps of 1/64.
inline constexpr std::int64_t kStepsToLeast = 64;

/// The least limit of memory in which something fits that is estimated to take `estimate` bytes.
/// `fits_in` tries a limit. Nothing where that is no less than `known` (0: none), or far above the
/// estimate.
template <typename FitsIn>
std::optional<std::int64_t> least_limit(const FitsIn& fits_in, std::int64_t estimate,
                                        std::int64_t known) {
  constexpr int kMostRaises = 4;  // of the estimate, by an eighth each
  const std::int64_t most =
      known > 0 ? known - known / kStepsToLeast : std::numeric_limits<std::int64_t>::max();
  std::int64_t high = std::min(estimate, most), low = high - high / 4;
  for (int raised = 0; !fits_in(high); ++raised) {
    if (high == most || raised == kMostRaises) return {};
    low = high;
    high = known > 0 ? most : high + high / 8;
  }
  while (high - low > high / kStepsToLeast) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits_in(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace triaccel
