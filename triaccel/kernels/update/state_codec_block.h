#pragma once

#include <cstdint>

#include "triaccel/kernels/update/state_codec_math.h"

// One block of a quantized state, for the codec and for the updates. See Note [State in 8 bits].
namespace triaccel::kernels::cpu {

/// `first`: number of the block's first element, as StateDraws::words.
inline void draw_state_words(const StateDraws& draws, std::int64_t first, std::int64_t step,
                             std::uint32_t (&words)[kStateBlock]) {
#pragma omp simd
  for (int call = 0; call < kStateBlock / 4; ++call) {
    const RandomWords drawn = draws.words(first + call * 4, step);
    for (int k = 0; k < 4; ++k) words[call * 4 + k] = drawn.words[k];
  }
}

template <Moment moment>
void read_state_block(const std::uint8_t* __restrict codes, std::uint32_t exponent,
                      float (&values)[kStateBlock]) {
  const std::uint32_t lowest = lowest_octave<moment>(exponent);
#pragma omp simd
  for (int i = 0; i < kStateBlock; ++i) values[i] = decoded_state<moment>(codes[i], lowest);
}

/// Returns the block's exponent.
template <Moment moment>
std::uint8_t write_state_block(const float (&values)[kStateBlock],
                               const std::uint32_t (&words)[kStateBlock],
                               std::uint8_t* __restrict codes) {
  std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int i = 0; i < kStateBlock; ++i) {
    const std::uint32_t magnitude = bits_of_float(values[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  const std::uint32_t exponent = block_exponent(largest), lowest = lowest_octave<moment>(exponent);
#pragma omp simd
  for (int i = 0; i < kStateBlock; ++i)
    codes[i] = static_cast<std::uint8_t>(
        encoded_state<moment>(values[i], lowest, state_noise<moment>(words[i])));
  return static_cast<std::uint8_t>(exponent);
}

}  // namespace triaccel::kernels::cpu
