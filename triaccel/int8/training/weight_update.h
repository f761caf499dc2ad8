#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/int8/threads.h"
#include "triaccel/int8/training/perturbation.h"
#include "triaccel/int8/training/state.h"

namespace triaccel::int8 {

/// Rounding of updates to whole mantissa units.
enum class UpdateRounding {
  Stochastic,        // unbiased, from Philox bits
  PseudoStochastic,  // NITI's, from the value's own lower bits
};

inline constexpr std::int32_t kMostRateExponent = 15;

/// Slope of the loss along the perturbation; see loss_slope.
inline constexpr std::int32_t kMostSlope = 15;
inline constexpr std::int32_t kSignOnly = -1;

/// The difference of two losses summed over `samples`, rounded to whole units of 2^exponent per
/// sample (each 2^-16 bit), at most kMostSlope; with kSignOnly its sign. Avoids division, which a
/// GPU implements with floating-point reciprocals.
TRIACCEL_HOST_DEVICE inline std::int32_t loss_slope(std::int64_t difference, std::int32_t samples,
                                                    std::int32_t exponent) {
  const std::int64_t size = difference < 0 ? -difference : difference;
  std::int32_t slope = 0;
  if (exponent == kSignOnly) {
    slope = size > 0 ? 1 : 0;
  } else {
    const std::int64_t unit = std::int64_t{samples} << exponent;
    while (slope < kMostSlope && 2 * size >= (2 * slope + 1) * unit) ++slope;
  }
  return difference < 0 ? -slope : slope;
}

/// The zeroth-order update of the first layers: w <- w - round(slope · z /
/// 2^rate_exponent).
struct SlopeUpdate {
  std::int32_t slope = 0;  // within kMostSlope; 0: no update
  std::int32_t layers = 0;
  std::int32_t rate_exponent = 0;  // at most kMostRateExponent
  UpdateRounding rounding = UpdateRounding::Stochastic;
  Noise noise = {};
  std::uint64_t noise_key = 0;
  std::uint64_t rounding_key = 0;
};

void apply_slope_update(State& state, const SlopeUpdate& update, const Threads& threads);

/// w <- w - round(gradient / 2^shift) for `count` weights from `index`; 16 random bits each, in the
/// upper places of the dropped ones.
void apply_gradient(State& state, std::int64_t index, std::int64_t count,
                    const std::int32_t* gradient, std::int32_t shift, UpdateRounding rounding,
                    std::uint64_t rounding_key);

/// Halves a layer's mantissas with stochastic rounding and increments the exponent if more than
/// share / 2^16 of them are saturated. Returns whether it did.
bool widen_saturated_layer(State& state, std::int32_t layer, std::uint32_t share,
                           std::uint64_t key);

}  // namespace triaccel::int8
