#pragma once

#include <cstdint>

#include "triaccel/policies/compression/gradient_noise.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Tri-Accel, section 3.3: B + delta_up below rho_low * limit, B - delta_down above rho_high *
/// limit, otherwise B.
std::int64_t paper_batch(std::int64_t batch, double used_bytes, double limit_bytes,
                         const BatchOptions& options);

/// Learning-rate factor for a batch of `batch` instead of `first`, the batch the schedule was
/// chosen for.
///   linear   B / B0
///   sqrt     sqrt(B / B0)
///   adascale (noise / B0 + signal) / (noise / B + signal), Johnson et al. 2020: linear while noise
///            dominates, constant where the signal does; sqrt until both were measured
double rate_for_batch(RateRule rule, std::int64_t first, std::int64_t batch,
                      const GradientNoise& noise);

}  // namespace triaccel
