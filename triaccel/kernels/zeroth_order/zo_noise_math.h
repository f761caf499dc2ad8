#pragma once

#include <cstdint>
#include <cstring>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/zeroth_order/zo_noise.h"

namespace triaccel::kernels {

inline constexpr int kZoTableBits = 10;
inline constexpr std::int32_t kZoUnitBits = 13;  // a standard deviation is 2^13 units of the table

/// The random bits of eight neighbouring elements.
TRIACCEL_HOST_DEVICE inline RandomWords zo_words(std::uint64_t seed, std::int64_t step,
                                                 std::int32_t direction, std::int64_t group) {
  return random_words(
      seed, static_cast<std::uint64_t>(group),
      static_cast<std::uint64_t>(step) << 16 | static_cast<std::uint32_t>(direction));
}

/// Sixteen bits of them, for the element at place 0..7 of the group.
TRIACCEL_HOST_DEVICE inline std::uint32_t zo_bits(const RandomWords& words, int place) {
  return words.words[place / 2] >> (place % 2 * 16) & 0xFFFFu;
}

/// A positive factor of table values as a whole number of grid steps: units * multiplier / 2^shift.
struct ZoFactor {
  std::int32_t multiplier = 0;  // at most 2^15, so that products with the table fit 32 bits
  std::int32_t shift = 1;
};

/// `scale` (of a standard deviation, not negative) on the grid of 2^exponent. Fifteen bits of it
/// count; no change is larger than kZoLargestChange, and infinity is not either.
TRIACCEL_HOST_DEVICE inline ZoFactor zo_factor(float scale, std::int32_t exponent) {
  std::uint32_t bits;
  memcpy(&bits, &scale, sizeof bits);
  const auto biased = static_cast<std::int32_t>(bits >> 23 & 0xFF);
  if (biased == 0) return {};  // subnormal: below any grid
  const std::uint32_t mantissa = (bits & 0x7FFFFFu) | 0x800000u;
  // scale = mantissa * 2^(biased - 150), multiplier = mantissa / 2^9.
  const std::int32_t shift = 150 - 9 - biased + kZoUnitBits + exponent;
  if (shift > 30) return {};
  if (shift < 9) return {1 << 15, 9};
  return {static_cast<std::int32_t>((mantissa + 256) >> 9), shift};
}

/// Rounded to the nearest step, the same for both signs of z.
TRIACCEL_HOST_DEVICE inline std::int32_t zo_steps(std::uint32_t bits, const std::int16_t* table,
                                                  ZoFactor factor) {
  const std::int32_t magnitude = table[bits & ((1 << kZoTableBits) - 1)];
  const std::int32_t steps =
      (magnitude * factor.multiplier + (1 << (factor.shift - 1))) >> factor.shift;
  return bits >> 15 ? -steps : steps;
}

TRIACCEL_HOST_DEVICE inline std::int32_t zo_clamp(std::int32_t steps, std::int32_t largest) {
  return steps > largest ? largest : steps < -largest ? -largest : steps;
}

/// 2^exponent.
TRIACCEL_HOST_DEVICE inline float zo_grid_step(std::int32_t exponent) {
  const std::uint32_t bits = static_cast<std::uint32_t>(exponent + 127) << 23;
  float step;
  memcpy(&step, &bits, sizeof step);
  return step;
}

/// The number, within its tensor, of the element at `offset` in memory.
TRIACCEL_HOST_DEVICE inline std::int64_t zo_number(const ZoTensor& tensor, std::int64_t offset) {
  if (tensor.inner_rows == 0) return offset;
  const std::int64_t inside = offset % (tensor.inner_rows * tensor.inner_columns);
  const std::int64_t column = inside / tensor.inner_rows;
  const std::int64_t row = inside % tensor.inner_rows;
  return offset - inside + row * tensor.inner_columns + column;
}

/// One direction's part in a move of one tensor.
struct ZoTerm {
  std::int64_t step = 0;
  std::int32_t direction = 0;
  std::int32_t sign = 0;  // what its steps are multiplied with; 0: no part
  ZoFactor factor = {};
};

/// The part of direction `d`, `back` steps ago, in an update; `weight` is momentum^back.
TRIACCEL_HOST_DEVICE inline ZoTerm zo_update_term(const ZoMove& move, const ZoTensor& tensor,
                                                  std::int32_t layer, std::int32_t back,
                                                  std::int32_t d, float weight) {
  const std::int64_t step = move.board->step - back;
  if (step < 0) return {};
  const float g = move.history[step % move.memory * move.directions + d];
  const float scale = move.learning_rates[layer] / static_cast<float>(move.directions) * weight * g;
  return {step, d, scale > 0 ? -1 : 1, zo_factor(scale < 0 ? -scale : scale, tensor.exponent)};
}

TRIACCEL_HOST_DEVICE inline ZoTerm zo_shift_term(const ZoMove& move, const ZoTensor& tensor) {
  return {move.board->step, move.shift.direction, move.shift.multiple,
          zo_factor(move.board->epsilon, tensor.exponent)};
}

TRIACCEL_HOST_DEVICE inline bool zo_updates(const ZoMove& move) {
  return move.history != nullptr && (move.control == nullptr || move.control->skip == 0);
}

/// `shift` is exact to take back; the update is kept inside the grid.
TRIACCEL_HOST_DEVICE inline float zo_moved(float w, std::int32_t shift, std::int32_t update,
                                           bool updates, float grid_step) {
  w += static_cast<float>(shift) * grid_step;
  if (!updates) return w;
  w += static_cast<float>(zo_clamp(update, kZoLargestChange)) * grid_step;
  const float largest = static_cast<float>(kZoLargestWeight) * grid_step;
  return w > largest ? largest : w < -largest ? -largest : w;
}

}  // namespace triaccel::kernels
