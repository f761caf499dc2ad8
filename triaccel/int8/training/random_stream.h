#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"

namespace triaccel::int8 {

/// What random bits are drawn for. Each use has numbers of its own.
enum class RandomStream : std::uint32_t {
  Perturbation = 0,
  SignUpdate = 0x5D3A91C7u,
  LossError = 0x91E4B6A3u,
  GradientUpdate = 0x3C7F20D5u,
  WeightHalving = 0xE86B14F9u,
  InitialWeights = 0xA7519D2Bu,
};

/// Philox's key of one use in one step.
TRIACCEL_HOST_DEVICE inline std::uint64_t random_key(std::uint64_t seed, RandomStream stream,
                                                     std::uint64_t step) {
  return (seed ^ static_cast<std::uint32_t>(stream)) ^ (step << 32);
}

/// 16 random bits of element `index`: eight neighbours share a Philox block.
TRIACCEL_HOST_DEVICE inline std::uint32_t random_half_word(std::uint64_t key, std::uint64_t index) {
  const RandomWords block = random_words(key, index >> 3);
  return (block.words[(index >> 1) & 3] >> ((index & 1) * 16)) & 0xFFFFu;
}

/// Elements drawn by one call of draw_half_words.
inline constexpr std::int32_t kDrawnTogether = 256;

/// random_half_word of `kDrawnTogether` elements from `first`, which is a multiple of 8.
void draw_half_words(std::uint64_t key, std::uint64_t first, std::uint16_t* out);

}  // namespace triaccel::int8
