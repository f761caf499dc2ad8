#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/groups/group_codec.h"

// See Note [Tiles of groups].
namespace triaccel::kernels {

inline constexpr int kGroupLanes = 32;
inline constexpr int kGroupRows = 8;
inline constexpr int kGroupPlaces = 32;  // elements of a lane
inline constexpr int kGroupsOfTile = 4;

/// Places of every eight that have the same bits: 0 never has an extra one, 1 has where the rest
/// contains 4, 2 where it contains 2, 3 where it contains 1.
inline constexpr int kGroupPlaceKinds = 4;
constexpr int group_place_kind(int place) {
  return place % 2 == 1 ? 1 : place % 4 == 2 ? 2 : place % 8 == 4 ? 3 : 0;
}

/// The codes of one kind of places. Positions within a range count in 65536ths of a level, the unit
/// of random offsets.
struct GroupCodes {
  float top;      // highest code
  float limit;    // position that still has that code
  float inverse;  // 1 / top
};

struct GroupWidths {
  int bits;  // of every code
  int rest;  // which places have one more
  GroupCodes kinds[kGroupPlaceKinds];
};

inline GroupWidths group_widths(int eighths) {
  GroupWidths widths = {.bits = eighths / 8, .rest = eighths % 8, .kinds = {}};
  for (int kind = 0; kind < kGroupPlaceKinds; ++kind) {
    const bool extra = kind > 0 && (widths.rest & (8 >> kind)) != 0;
    const auto levels = static_cast<float>(1 << (widths.bits + (extra ? 1 : 0)));
    widths.kinds[kind] = {levels - 1, (levels - 0.5f) * 65536.0f, 1.0f / (levels - 1)};
  }
  return widths;
}

/// Both exact in BF16. A group that is not finite has NaN as `low`, and a constant one may have
/// range 0; other ranges are at least 2^-96, so that 1 / range is far from overflow.
struct GroupRange {
  float low, range;
};

/// From a group's smallest and largest value; one of them is NaN where a value is.
TRIACCEL_HOST_DEVICE inline GroupRange group_range(float least, float largest) {
  const std::uint32_t bits = bits_of_float(least + 0.0f);  // no -0
  const float low = float_from_bits((bits + (bits >> 31 != 0 ? 0xffffu : 0u)) & 0xffff0000u);
  const float above = (largest - low) + (least - least);
  constexpr float largest_bf16 = 0x1.fep127f, smallest_range = 0x1.0p-96f;
  if (!(above <= largest_bf16)) return {float_from_bits(0x7fc00000u), 0.0f};
  const float range = float_from_bits((bits_of_float(above) + 0xffffu) & 0xffff0000u);
  return {low, range > smallest_range ? range : above > 0 ? smallest_range : 0.0f};
}

TRIACCEL_HOST_DEVICE inline std::uint32_t stored_group_range(GroupRange range) {
  return bits_of_float(range.low) >> 16 | bits_of_float(range.range);
}

TRIACCEL_HOST_DEVICE inline GroupRange read_group_range(std::uint32_t stored) {
  return {float_from_bits(stored << 16), float_from_bits(stored & 0xffff0000u)};
}

/// Positions per unit of value, over the highest code.
TRIACCEL_HOST_DEVICE inline float group_scale(GroupRange range) {
  return range.range > 0 ? 65536.0f / range.range : 0.0f;
}

/// Where a value lies in the range, moved by the random offset; NaN counts as the highest code. The
/// code is a 65536th of it, rounded down.
TRIACCEL_HOST_DEVICE inline float group_position(float value, float low, float scale, float offset,
                                                 float limit) {
  const float position = (value - low) * scale + offset;
#ifdef __CUDA_ARCH__
  return fminf(position, limit);
#else
  return position < limit ? position : limit;
#endif
}

/// What sixteen random bits are short of their offset: 1/2 keeps offsets centred. Nearest takes
/// 32768 for the bits.
TRIACCEL_HOST_DEVICE inline float group_offset_shift(Rounding rounding) {
  return rounding == Rounding::Nearest ? 0.0f : 0.5f;
}
inline constexpr std::uint32_t kGroupHalfBits = 0x80008000u;  // 32768, twice

/// Values of codes: value = low + step * position, where the position is the code with sixteen bits
/// below it, less 32768. Those are the complement of the random bits, or 32768 where the offset is
/// not subtracted again.
struct GroupValues {
  float low, step;
};

TRIACCEL_HOST_DEVICE inline GroupValues group_values(GroupRange range, float inverse,
                                                     Rounding rounding) {
  const float level = range.range * inverse;
  const float centre = rounding == Rounding::Dither ? level * 0x1.0p-17f : 0.0f;
  return {range.low + centre, level * 0x1.0p-16f};
}

/// Where the parts of a tensor's codes begin.
template <typename Byte>
struct GroupParts {
  Byte *words, *extra4, *extra2, *ranges, *extra1;
};

template <typename Byte>
GroupParts<Byte> group_parts(const GroupCoding& coding, Byte* codes) {
  const std::int64_t tiles = group_tiles(coding.count);
  const int rest = coding.eighths % 8;
  GroupParts<Byte> parts = {};
  parts.words = codes;
  parts.extra4 = parts.words + tiles * 128 * (coding.eighths / 8);
  parts.extra2 = parts.extra4 + tiles * (rest & 4) * 16;
  parts.ranges = parts.extra2 + tiles * (rest & 2) * 16;
  parts.extra1 = parts.ranges + tiles * 16;
  return parts;
}

}  // namespace triaccel::kernels
