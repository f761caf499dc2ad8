#include "triaccel/int8/training/weight_update.h"

#include <algorithm>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/threads.h"
#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8 {
namespace {

constexpr std::int64_t kWeightsAnItem = 8192;

/// round_stochastic and saturate8 in 16 bits, sufficient for all values here.
TRIACCEL_WIDE_LOOP void step_against_noise(const std::uint16_t* __restrict noise_bits,
                                           const std::uint16_t* __restrict rounding_bits,
                                           std::int32_t count, const SlopeUpdate& given,
                                           std::int8_t* __restrict weights) {
  const Noise noise = given.noise;
  const auto sign = static_cast<std::int16_t>(given.slope < 0 ? -1 : 1);
  const auto steepness = static_cast<std::uint16_t>(given.slope < 0 ? -given.slope : given.slope);
  const std::int32_t shift = given.rate_exponent;
  const auto mask = static_cast<std::uint16_t>((1u << shift) - 1u);
  const std::int16_t most = kLargestMantissa;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int16_t z = noise_value(noise, noise_bits[i]);
    const auto size = static_cast<std::uint16_t>(z < 0 ? -z : z);
    const auto dithered = static_cast<std::uint16_t>(size * steepness + (rounding_bits[i] & mask));
    const auto rounded = static_cast<std::int16_t>(dithered >> shift);
    const auto step = static_cast<std::int16_t>(z < 0 ? -rounded : rounded);
    const auto moved = static_cast<std::int16_t>(weights[i] - sign * step);
    const std::int16_t low = moved < -most ? static_cast<std::int16_t>(-most) : moved;
    weights[i] = static_cast<std::int8_t>(low > most ? most : low);
  }
}

void update_run(const SlopeUpdate& update, std::int64_t index, std::int64_t count,
                std::int8_t* weights) {
  for_random_runs(
      update.noise_key, index, count,
      [&](const std::uint16_t* noise_bits, std::int64_t done, std::int32_t drawn) {
        if (update.rounding == UpdateRounding::PseudoStochastic) {
          for (std::int32_t i = 0; i < drawn; ++i) {
            const std::int32_t z = noise_value(update.noise, noise_bits[i]);
            weights[done + i] =
                saturate8(weights[done + i] - round_pseudo(update.slope * z, update.rate_exponent));
          }
          return;
        }
        // Both streams are split into the same runs, since they start at the same index.
        std::uint16_t rounding_bits[kDrawnTogether];
        const std::int64_t first = index + done;
        draw_half_words(update.rounding_key, static_cast<std::uint64_t>(first & ~std::int64_t{7}),
                        rounding_bits);
        step_against_noise(noise_bits, rounding_bits + (first & 7), drawn, update, weights + done);
      });
}

TRIACCEL_WIDE_LOOP std::int64_t count_saturated(const std::int8_t* weights, std::int64_t count) {
  std::int32_t saturated = 0;
  for (std::int64_t i = 0; i < count; ++i)
    saturated += weights[i] == kLargestMantissa || weights[i] == -kLargestMantissa ? 1 : 0;
  return saturated;
}

}  // namespace

void apply_slope_update(State& state, const SlopeUpdate& update, const Threads& threads) {
  if (update.slope == 0) return;
  for (std::int32_t l = 0; l < update.layers; ++l) {
    const std::int64_t offset = state.network.offsets[static_cast<std::size_t>(l)];
    const std::int64_t count = state.network.layers[static_cast<std::size_t>(l)].weight_count();
    const auto items = static_cast<std::int32_t>(divide_up(count, kWeightsAnItem));
    for_each_item(threads, items, [&](std::int32_t item, std::int32_t) {
      const std::int64_t first = item * kWeightsAnItem;
      update_run(update, offset + first, std::min(kWeightsAnItem, count - first),
                 state.weights.data() + offset + first);
    });
  }
}

void apply_gradient(State& state, std::int64_t index, std::int64_t count,
                    const std::int32_t* gradient, std::int32_t shift, UpdateRounding rounding,
                    std::uint64_t rounding_key) {
  std::int8_t* weights = state.weights.data() + index;
  if (rounding == UpdateRounding::PseudoStochastic || shift == 0) {
    for (std::int64_t i = 0; i < count; ++i)
      weights[i] = saturate8(weights[i] - round_pseudo(gradient[i], shift));
    return;
  }
  const std::int32_t stretch = std::max(0, shift - 16);
  for_random_runs(rounding_key, index, count,
                  [&](const std::uint16_t* random, std::int64_t done, std::int32_t drawn) {
                    for (std::int32_t i = 0; i < drawn; ++i) {
                      const std::uint32_t bits = std::uint32_t{random[i]} << stretch;
                      const std::int32_t step = round_stochastic(gradient[done + i], shift, bits);
                      weights[done + i] = saturate8(weights[done + i] - step);
                    }
                  });
}

bool widen_saturated_layer(State& state, std::int32_t layer, std::uint32_t share,
                           std::uint64_t key) {
  const std::int64_t offset = state.network.offsets[static_cast<std::size_t>(layer)];
  const std::int64_t count = state.network.layers[static_cast<std::size_t>(layer)].weight_count();
  std::int8_t* weights = state.weights.data() + offset;
  if (count_saturated(weights, count) * 65536 <= std::int64_t{share} * count) return false;
  for_random_runs(
      key, offset, count, [&](const std::uint16_t* random, std::int64_t done, std::int32_t drawn) {
        for (std::int32_t i = 0; i < drawn; ++i)
          weights[done + i] =
              static_cast<std::int8_t>(round_stochastic(weights[done + i], 1, random[i]));
      });
  ++state.exponents[static_cast<std::size_t>(layer)];
  return true;
}

}  // namespace triaccel::int8
