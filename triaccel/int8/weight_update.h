#pragma once

#include <cstdint>

#include "triaccel/int8/perturbation.h"
#include "triaccel/int8/state.h"
#include "triaccel/int8/threads.h"

namespace triaccel::int8 {

/// How an update is rounded to whole mantissa units.
enum class UpdateRounding {
  Stochastic,        // unbiased, from Philox bits
  PseudoStochastic,  // NITI's, from the value's own lower bits
};

inline constexpr std::int32_t kMostRateExponent = 15;

/// The zeroth-order update of the layers below a boundary: w <- w - sign · round(z /
/// 2^rate_exponent).
struct SignUpdate {
  std::int32_t sign = 0;  // of the loss difference; 0 does nothing
  std::int32_t boundary = 0;
  std::int32_t rate_exponent = 0;  // at most kMostRateExponent
  UpdateRounding rounding = UpdateRounding::Stochastic;
  Noise noise = {};
  std::uint64_t noise_key = 0;
  std::uint64_t rounding_key = 0;
};

void apply_sign_update(State& state, const SignUpdate& update, const Threads& threads);

/// w <- w - round(gradient / 2^shift) for `count` weights from `index`; 16 random bits each, in the
/// upper places of the dropped ones.
void apply_gradient(State& state, std::int64_t index, std::int64_t count,
                    const std::int32_t* gradient, std::int32_t shift, UpdateRounding rounding,
                    std::uint64_t rounding_key);

/// Halves a layer's mantissas, with stochastic rounding, and doubles their unit when more than
/// share / 2^16 of them are saturated: a layer that has outgrown its grid gets a wider one.
/// Returns whether it did.
bool widen_saturated_layer(State& state, std::int32_t layer, std::uint32_t share,
                           std::uint64_t key);

}  // namespace triaccel::int8
