#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::int8 {

/// Mantissas are in [-127, 127]: -128 has no int8 negation.
inline constexpr std::int32_t kLargestMantissa = 127;

/// Bits of a mantissa's magnitude.
inline constexpr std::int32_t kMantissaBits = 7;

/// Position of the highest set bit plus one; 0 for 0.
TRIACCEL_HOST_DEVICE inline std::int32_t bit_length(std::uint32_t value) {
#ifdef __CUDA_ARCH__
  return 32 - __clz(static_cast<int>(value));
#else
  return value == 0 ? 0 : 32 - __builtin_clz(value);
#endif
}

/// |x| without overflow at INT32_MIN.
TRIACCEL_HOST_DEVICE inline std::uint32_t magnitude(std::int32_t x) {
  return x < 0 ? 0u - static_cast<std::uint32_t>(x) : static_cast<std::uint32_t>(x);
}

TRIACCEL_HOST_DEVICE inline std::int8_t saturate8(std::int32_t x) {
  const std::int32_t low = x < -kLargestMantissa ? -kLargestMantissa : x;
  return static_cast<std::int8_t>(low > kLargestMantissa ? kLargestMantissa : low);
}

/// `size` with the sign of `like`; size <= 2^31 - 1.
TRIACCEL_HOST_DEVICE inline std::int32_t with_sign(std::uint32_t size, std::int32_t like) {
  return like < 0 ? -static_cast<std::int32_t>(size) : static_cast<std::int32_t>(size);
}

/// x / 2^shift to the nearest, ties away from zero; shift in [0, 31].
TRIACCEL_HOST_DEVICE inline std::int32_t round_nearest(std::int32_t x, std::int32_t shift) {
  if (shift == 0) return x;
  const std::uint32_t half = 1u << (shift - 1);  // |x| + half <= 2^31 + 2^30
  return with_sign((magnitude(x) + half) >> shift, x);
}

/// x / 2^shift rounded up or down at random so that the mean over all `random` mod 2^shift is
/// exact; shift in [0, 31].
TRIACCEL_HOST_DEVICE inline std::int32_t round_stochastic(std::int32_t x, std::int32_t shift,
                                                          std::uint32_t random) {
  if (shift == 0) return x;
  const std::uint32_t dither = random & ((1u << shift) - 1u);  // the sum stays below 2^32
  return with_sign((magnitude(x) + dither) >> shift, x);
}

/// x / 2^shift rounded by comparing the two halves of the dropped bits (NITI): needs no random
/// number, and has a small bias. shift in [0, 31].
TRIACCEL_HOST_DEVICE inline std::int32_t round_pseudo(std::int32_t x, std::int32_t shift) {
  if (shift == 0) return x;
  const std::uint32_t size = magnitude(x);
  const std::uint32_t dropped = size & ((1u << shift) - 1u);
  const std::int32_t half = shift / 2;
  const std::uint32_t high = dropped >> half;
  const std::uint32_t low = (dropped & ((1u << half) - 1u)) << (shift & 1);
  return with_sign((size >> shift) + (high > low ? 1u : 0u), x);
}

/// The right shift that brings sums up to `largest` into 7 bits. Rounding may still give 128, which
/// saturate8 clamps.
TRIACCEL_HOST_DEVICE inline std::int32_t requant_shift(std::uint32_t largest) {
  const std::int32_t bits = bit_length(largest);
  return bits > kMantissaBits ? bits - kMantissaBits : 0;
}

/// One sum as a mantissa, after `shift`.
TRIACCEL_HOST_DEVICE inline std::int8_t requantise(std::int32_t sum, std::int32_t shift) {
  return saturate8(round_nearest(sum, shift));
}

}  // namespace triaccel::int8
