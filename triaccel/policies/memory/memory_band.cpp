#include "triaccel/policies/memory/memory_band.h"

#include <algorithm>

namespace triaccel {

MemoryBand memory_band(double limit_bytes, double fixed_bytes, const BatchOptions& options) {
  const double fixed = std::clamp(fixed_bytes, 0.0, limit_bytes);
  const double room = limit_bytes - fixed;
  const double apart = 2 * options.measurement_noise * limit_bytes;
  const double shrink_above = std::min(fixed + options.rho_high * room, limit_bytes - apart);
  return {.room = room,
          .apart = apart,
          .grow_to = std::min(fixed + options.rho_low * room, shrink_above - apart),
          .shrink_above = shrink_above,
          .steady_gap = std::max(options.steady_gap * room, apart)};
}

}  // namespace triaccel
