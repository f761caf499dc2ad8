#pragma once

#include <cstdint>

#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Tri-Accel, section 3.3: B + delta_up below rho_low of the limit, B - delta_down above rho_high,
/// B between.
std::int64_t paper_batch(std::int64_t batch, double used_bytes, double limit_bytes,
                         const BatchOptions& options);

}  // namespace triaccel
