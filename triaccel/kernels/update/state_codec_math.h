#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/dither.h"
#include "triaccel/kernels/update/state_codec.h"

// See Note [State in 8 bits]. Exponents are those of FP32's bits: 127 stands for 1.
namespace triaccel::kernels {

/// The largest code of a magnitude.
template <Moment moment>
inline constexpr std::uint32_t kLargestStateCode = moment == Moment::First ? 127 : 255;

/// A block's exponent, from the bits of its largest magnitude: that of the level above it, so that
/// no value is rounded out of the block. Coded again, a decoded block gets this exponent or the one
/// below, which has all its levels.
TRIACCEL_HOST_DEVICE inline std::uint32_t block_exponent(std::uint32_t largest) {
  constexpr std::uint32_t below_a_level = (1u << 20) - 1;
  const std::uint32_t exponent = (largest + below_a_level) >> 23;
  return exponent < 254 ? exponent : 254;
}

/// The lowest octave of a block with that exponent; at least 4, where the distance of levels is
/// still a normal float.
template <Moment moment>
TRIACCEL_HOST_DEVICE inline std::uint32_t lowest_octave(std::uint32_t exponent) {
  constexpr std::uint32_t octaves = (kLargestStateCode<moment> - 15) / 8, least = 4;
  return exponent > octaves + least ? exponent - octaves : least;
}

/// `noise` has 16 random bits; `lowest` is that of the value's block. From the lowest octave on, a
/// code is the upper bits of the value's own, in which the exponent counts from there. What lies
/// below gets its steps of equal size from a sum with the octave's power of two.
template <Moment moment>
TRIACCEL_HOST_DEVICE inline std::uint32_t encoded_state(float value, std::uint32_t lowest,
                                                        std::uint32_t noise) {
  const std::uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffffu;
  const std::uint32_t octave = lowest << 23;
  const std::uint32_t sum = bits_of_float(float_from_bits(magnitude) + float_from_bits(octave));
  const bool below = magnitude < octave;
  const std::uint32_t above = chosen(below, sum - octave, magnitude - octave + (1u << 23));
  const std::uint32_t level = (above + noise * 16 + 8) >> 20;
  const std::uint32_t code = level < kLargestStateCode<moment> ? level : kLargestStateCode<moment>;
  if constexpr (moment == Moment::First) return code | bits >> 31 << 7;
  const std::uint32_t least = magnitude > 0 ? 1 : 0;
  return code > least ? code : least;
}

template <Moment moment>
TRIACCEL_HOST_DEVICE inline float decoded_state(std::uint32_t code, std::uint32_t lowest) {
  const std::uint32_t level = code & kLargestStateCode<moment>, octave = lowest << 23;
  const bool below = level < 8;
  const float sum = float_from_bits((level << 20) + chosen(below, octave, octave - (1u << 23)));
  const float magnitude = sum - float_from_bits(chosen(below, octave, 0));
  const std::uint32_t sign = (code & ~kLargestStateCode<moment>) << 24;
  return float_from_bits(bits_of_float(magnitude) | sign);
}

/// The random words of an optimizer's states: word k of a call is for the k-th of four elements,
/// its lower half for the first moment, its upper half for the second.
struct StateDraws {
  /// `first`: number of the first of the four elements, of all in the state's memory.
  TRIACCEL_HOST_DEVICE RandomWords words(std::int64_t first, std::int64_t step) const {
    return random_words(keys, static_cast<std::uint64_t>(first) / 4,
                        static_cast<std::uint64_t>(step));
  }

  RandomKeys<kDitherRounds> keys;
};

/// Of an element's word, what encoded_state takes for this moment.
template <Moment moment>
TRIACCEL_HOST_DEVICE inline std::uint32_t state_noise(std::uint32_t word) {
  return moment == Moment::First ? word & 0xffffu : word >> 16;
}

}  // namespace triaccel::kernels
