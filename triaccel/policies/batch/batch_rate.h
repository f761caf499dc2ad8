#pragma once

#include <cstdint>

#include "triaccel/policies/compression/gradient_noise.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// What the learning rate is multiplied by when the batch is `batch` instead of `first`, for which
/// the schedule was chosen.
///   linear   B / B0
///   sqrt     sqrt(B / B0)
///   adascale (noise / B0 + signal) / (noise / B + signal), Johnson et al. 2020: linear while noise
///            rules, nothing where the signal does; sqrt until both were measured
double rate_for_batch(RateRule rule, std::int64_t first, std::int64_t batch,
                      const GradientNoise& noise);

}  // namespace triaccel
