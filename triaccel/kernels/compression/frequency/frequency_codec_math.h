#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/core/frequency_bands.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/block_transform.h"
#include "triaccel/kernels/compression/dither.h"

// One unit's header and one coefficient's code. Both back ends call this, so they cannot drift
// apart.
//
// Header: a range for every band, which its coefficients keep within, about zero; those of band 0
// about a middle. Ranges are floats with five bits of fraction, rounded up, held as the upper 13 of
// their bits without sign ("range code"): one more is up to 3 % more.
//   bits 0..39   for each band how far its range code lies below the largest one, at most 254; 255:
//                the band is zero throughout
//   bits 40..52  the largest range code; 0x1fff, a NaN, where the unit is not finite; 0: all zero
//   bits 53..63  signed: the middle, in eighths of the power of two in band 0's range
namespace triaccel::kernels {

inline constexpr int kRangeShift = 18;
inline constexpr std::uint32_t kNotFiniteCode = 0x1fff;
inline constexpr std::uint32_t kZeroBand = 255;
inline constexpr std::uint32_t kMaxBelow = 254;
inline constexpr std::uint32_t kSmallestCode = (127 - 110) << 5;  // of ranges that are not zero
inline constexpr std::uint32_t kLargestCode = (127 + 120) << 5;

/// Ranges are taken so much wider that no rounding of FP32 pushes a code out of its bits.
inline constexpr float kWidth = 2.0001220703125f;  // 2 + 2^-13, of a whole range

/// 1.5 * 2^23: added to a float it rounds to a whole number, in the lowest bits.
inline constexpr float kCodeBase = 12582912.0f;
inline constexpr std::uint32_t kCodeBaseBits = 0x4b400000u;

/// The larger one; NaN where either is.
TRIACCEL_HOST_DEVICE inline float larger(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return ((a > b) | (a != a)) ? a : b;
#endif
}

TRIACCEL_HOST_DEVICE inline float magnitude(float value) { return __builtin_fabsf(value); }

/// What a unit's ranges follow from: of band 0 the highest and the negated lowest coefficient, of
/// the others the largest magnitudes.
inline constexpr int kExtremes = kFrequencyBands + 1;

TRIACCEL_HOST_DEVICE inline std::uint32_t range_code(float range) {
  const std::uint32_t bits = bits_of_float(range) & 0x7fffffffu;
  const std::uint32_t code = (bits + (1u << kRangeShift) - 1) >> kRangeShift;
  const std::uint32_t held = code < kSmallestCode ? kSmallestCode : code;
  return bits == 0 ? 0 : held;
}

/// Band 0: a header takes a middle of up to 1023 units, so the range is kept above 1/59 of it. The
/// middle is off by at most half a unit, a sixteenth of the range, which 1.07 makes room for.
struct MiddleRange {
  float middle, range;
};
TRIACCEL_HOST_DEVICE inline MiddleRange middle_range(float highest, float negated_lowest) {
  const float middle = (highest - negated_lowest) * 0.5f;
  const float half = (highest + negated_lowest) * 0.5f;
  return {middle, larger(half * 1.07f, magnitude(middle) * 0.017f)};
}

/// The contents of a header. A unit is finite where `largest` is at most kLargestCode.
struct UnitRanges {
  std::uint32_t largest;
  std::uint32_t below[kFrequencyBands];
  std::uint32_t middles;  // 11 bits
};

/// From the range codes of the bands.
TRIACCEL_HOST_DEVICE inline UnitRanges unit_ranges(const std::uint32_t (&codes)[kFrequencyBands],
                                                   float middle) {
  UnitRanges ranges;
  ranges.largest = codes[0];
  for (int band = 1; band < kFrequencyBands; ++band)
    ranges.largest = codes[band] > ranges.largest ? codes[band] : ranges.largest;
  for (int band = 0; band < kFrequencyBands; ++band) {
    const std::uint32_t distance = ranges.largest - codes[band];
    ranges.below[band] = codes[band] == 0 ? kZeroBand : distance < kMaxBelow ? distance : kMaxBelow;
  }
  // 8 over the power of two in the range.
  const std::uint32_t exponent = (ranges.largest - ranges.below[0]) >> 5;
  const float scaled = codes[0] == 0 ? 0.0f : middle * float_from_bits((254 + 3 - exponent) << 23);
  ranges.middles = bits_of_float(scaled + kCodeBase) & 0x7ffu;
  return ranges;
}

TRIACCEL_HOST_DEVICE inline bool is_finite(const UnitRanges& ranges) {
  return ranges.largest <= kLargestCode;
}

TRIACCEL_HOST_DEVICE inline std::uint64_t header_of(const UnitRanges& ranges) {
  const std::uint32_t low =
      ranges.below[0] | ranges.below[1] << 8 | ranges.below[2] << 16 | ranges.below[3] << 24;
  const std::uint32_t high = ranges.below[4] | ranges.largest << 8 | ranges.middles << 21;
  return is_finite(ranges) ? low | std::uint64_t{high} << 32 : std::uint64_t{kNotFiniteCode} << 40;
}

TRIACCEL_HOST_DEVICE inline UnitRanges ranges_of(std::uint64_t header) {
  const auto low = static_cast<std::uint32_t>(header);
  const auto high = static_cast<std::uint32_t>(header >> 32);
  return {high >> 8 & kNotFiniteCode,
          {low & 0xffu, low >> 8 & 0xffu, low >> 16 & 0xffu, low >> 24, high & 0xffu},
          high >> 21};
}

/// Zero for a zero band, NaN where the unit is not finite.
TRIACCEL_HOST_DEVICE inline float band_range(const UnitRanges& ranges, int band) {
  const float range = float_from_bits((ranges.largest - ranges.below[band]) << kRangeShift);
  return ranges.below[band] == kZeroBand ? 0.0f : range;
}

TRIACCEL_HOST_DEVICE inline float middle_of(const UnitRanges& ranges) {
  const auto middles = static_cast<std::int32_t>(ranges.middles << 21) >> 21;
  const std::uint32_t exponent = (ranges.largest - ranges.below[0]) >> 5;
  const float unit = float_from_bits((exponent - 3) << 23);
  return ranges.below[0] == kZeroBand ? 0.0f : static_cast<float>(middles) * unit;
}

/// 1 over the whole width of a range; 0 for a zero band.
TRIACCEL_HOST_DEVICE inline float inverse_width(float range) {
  return range > 0.0f ? 1.0f / (range * kWidth) : 0.0f;
}

/// Of a chunk's random offsets the sixteen from 16 * `sixteenth` on; `first` are the first ones,
/// all that is drawn. The others follow from sums of one drawn word and another, turned one: again
/// every byte leads one offset, and any two of the 64 are as good as independent.
TRIACCEL_HOST_DEVICE inline OffsetWords chunk_offsets(const OffsetWords& first, int sixteenth) {
  if (sixteenth == 0) return first;
  RandomWords sums;
  for (int i = 0; i < 4; ++i)
    sums.words[i] = first.words[i] + turned(first.words[(i + sixteenth) % 4]);
  return offset_words(sums);
}

inline constexpr std::uint32_t kHalfOffsets = 0x80004000u;  // both offsets of a word are 1/2
TRIACCEL_HOST_DEVICE inline OffsetWords half_offsets() {
  return {{kHalfOffsets, kHalfOffsets, kHalfOffsets, kHalfOffsets, kHalfOffsets, kHalfOffsets,
           kHalfOffsets, kHalfOffsets}};
}

/// Of a word's two offsets the one at place 0 or 1, of 15 bits, as the float 256 + offset, whose
/// lowest bit is worth 2^-15. `exponent` is kOffsetExponent.
inline constexpr std::uint32_t kOffsetExponent = 0x43800000u;
TRIACCEL_HOST_DEVICE inline std::uint32_t offset_bits(std::uint32_t word, int place,
                                                      std::uint32_t exponent = kOffsetExponent) {
#ifdef __CUDA_ARCH__
  if (place % 2 == 1) {
    std::uint32_t bits;  // one instruction, which needs no other constant
    asm("mad.hi.u32 %0, %1, 0x8000, %2;" : "=r"(bits) : "r"(word), "r"(exponent));
    return bits;
  }
#endif
  return (place % 2 == 0 ? word & 0x7fffu : word >> 17) | exponent;
}

/// Position z = coefficient * scale, within (levels - 1) / 2 of zero, where `scale` is
/// (levels - 1) / width; its code is z + levels / 2 - offset, rounded to the nearest whole number.
/// This returns the bits of a float in which that number, less levels / 2, is added to those of
/// kCodeBase.
TRIACCEL_HOST_DEVICE inline std::uint32_t code_bits(float coefficient, float scale,
                                                    std::uint32_t offset) {
  return bits_of_float(fused(coefficient, scale, -float_from_bits(offset)) + (kCodeBase + 256.0f));
}

/// The coefficient that code - levels / 2 + offset stands for, times `step`, width / (levels - 1).
/// `code_at_15` holds the code from bit 15 on: with the offset's bits it is the float
/// 256 + code + offset. `bias` is 256 + levels / 2 steps.
TRIACCEL_HOST_DEVICE inline float decoded(std::uint32_t code_at_15, std::uint32_t offset,
                                          float step, float bias) {
  return fused(float_from_bits(code_at_15 | offset), step, -bias);
}

/// What is stored of a decoded number; NaN stays.
template <typename Stored>
TRIACCEL_HOST_DEVICE inline float storable(float value) {
  const float limit = float_from_bits(Stored::kSaturation);
  if (Stored::kSaturation == 0x7f800000u) return value;
  const float below = value > limit ? limit : value;
  return below < -limit ? -limit : below;
}

}  // namespace triaccel::kernels
