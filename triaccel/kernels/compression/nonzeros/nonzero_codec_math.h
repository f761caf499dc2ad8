#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/dither.h"
#include "triaccel/kernels/compression/nonzeros/nonzero_codec.h"

// See Note [Tiles of non-zeros].
namespace triaccel::kernels {

inline constexpr int kNonZeroGroup = 128;  // elements with a range of their own
inline constexpr int kNonZeroGroups = kNonZeroTile / kNonZeroGroup;
inline constexpr int kNonZeroQuads = kNonZeroTile / 4;
inline constexpr int kNonZeroWords = kNonZeroTile / 32;  // of the mask
inline constexpr int kWidestCode = 8;

constexpr int nonzero_record_words(int eighths) { return (1 + eighths) * 4; }

/// A group's range from the bits of its values: the largest of them as signed numbers, which is
/// that of the values above zero, and as unsigned ones, which is the furthest below zero if one is.
/// NaNs and infinities come out on top of both. Never below 2^-100, so that 1 / range is finite.
TRIACCEL_HOST_DEVICE inline std::uint32_t nonzero_range(std::int32_t largest,
                                                        std::uint32_t furthest) {
  const std::uint32_t below = furthest & 0x7fffffffu;
  const std::uint32_t above = largest < 0 ? 0u : static_cast<std::uint32_t>(largest);
  const std::uint32_t rounded_up = ((below > above ? below : above) + 0xffffu) >> 16;
  constexpr std::uint32_t smallest = (127u - 100u) << 7, too_large = (127u + 126u) << 7;
  if (rounded_up >= too_large) return 0x7fffu;
  return (rounded_up > smallest ? rounded_up : smallest) | (furthest > 0x80000000u ? 0x8000u : 0u);
}

constexpr bool is_not_finite(std::uint32_t range) { return range == 0x7fffu; }

/// offset = factor * (sixteen random bits) + addend, which decides between the two levels around a
/// value. It is exact, as one operation or as two.
struct OffsetRule {
  float factor, addend;
};

TRIACCEL_HOST_DEVICE inline OffsetRule offset_rule(Rounding rounding) {
  return rounding == Rounding::Nearest ? OffsetRule{0.0f, 32768.0f} : OffsetRule{1.0f, 0.5f};
}

/// The sixteen random offsets of quad `quad` of the groups 4 * four .. 4 * four + 3.
inline constexpr int kCallGroups = 4;
TRIACCEL_HOST_DEVICE inline std::uint64_t dither_call(std::int64_t tile, int four, int quad) {
  return static_cast<std::uint64_t>(tile * (kNonZeroTile / kOffsetsOfCall) +
                                    quad * (kNonZeroGroups / kCallGroups) + four);
}

/// How the values of a group are encoded in one width. Places count from the lowest level in
/// 65536ths of a level, the unit of offsets: place = value * scale + (factor * bits + zero), and
/// the code is place / 65536, rounded down.
struct CodeGrid {
  float zero;   // place of zero, with the offset's addend
  float scale;  // places per unit of value
};

/// No place lies outside of the codes: scale is four units in its last place short of the quotient,
/// which is more than all roundings together. A group that is not finite is encoded as zeros.
TRIACCEL_HOST_DEVICE inline CodeGrid code_grid(std::uint32_t range, std::uint32_t width,
                                               OffsetRule rule) {
  const bool both_signs = range > 0x7fffu;
  const std::uint32_t top = (1u << width) - 1;
  const float zero = rule.addend + static_cast<float>(both_signs ? top << 15 : 0u);
  if (is_not_finite(range)) return {zero, 0.0f};
  const float reach = bf16_to_float(static_cast<std::uint16_t>(range & 0x7fffu));
  const float scale = static_cast<float>(top << 16) / (both_signs ? 2 * reach : reach);
  return {zero, float_from_bits(bits_of_float(scale) - 4)};
}

/// How codes of one width become values: value = base + step * bits, where bits are the code and
/// below it sixteen bits: the complement of those that encoded it where the offset is to be
/// subtracted again, else zeros.
struct alignas(16) ValueGrid {
  float base;
  float step;
  std::uint32_t top;    // the highest code, all bits set
  std::uint32_t width;  // bits of a code
};

TRIACCEL_HOST_DEVICE inline ValueGrid value_grid(std::uint32_t range, std::uint32_t width,
                                                 Rounding rounding) {
  const float reach = bf16_to_float(static_cast<std::uint16_t>(range & 0x7fffu));
  const bool both_signs = range > 0x7fffu;
  const std::uint32_t top = (1u << width) - 1;
  const float step = (both_signs ? 2 * reach : reach) / static_cast<float>(top) * 0x1.0p-16f;
  // code + 1/2 - (random + 1/2) / 65536 is code + (65535 - random) / 65536 less 32767.5 / 65536.
  const float centre = rounding == Rounding::Dither ? 32767.5f * step : 0.0f;
  return {(both_signs ? -reach : 0.0f) - centre, step, top, width};
}

TRIACCEL_HOST_DEVICE inline float value_of(std::uint32_t bits, const ValueGrid& grid) {
  return grid.base + grid.step * static_cast<float>(static_cast<std::int32_t>(bits));
}

}  // namespace triaccel::kernels
