#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel {

/// Four 32-bit words: Philox's counter and its output.
struct RandomWords {
  std::uint32_t words[4];
};

/// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): the output is a function of
/// (seed, counter) alone, never of launch geometry, thread count or what was drawn before. Any
/// kernel on any device can therefore redo any draw.
TRIACCEL_HOST_DEVICE inline RandomWords random_words(std::uint64_t seed, std::uint64_t counter_low,
                                                     std::uint64_t counter_high = 0) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high);
  std::uint32_t c3 = static_cast<std::uint32_t>(counter_high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;  // golden ratio
    k1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return {{c0, c1, c2, c3}};
}

/// Uniform integer in [0, bound), bound > 0, from one word. The bias is below bound / 2^32.
TRIACCEL_HOST_DEVICE inline std::uint32_t bounded(std::uint32_t word, std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * bound) >> 32);
}

/// Uniform float in [0, 1) on a grid of 2^-24: exact in FP32, so equal on every device.
TRIACCEL_HOST_DEVICE inline float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1.0p-24f;
}

}  // namespace triaccel
