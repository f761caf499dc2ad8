#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel {

/// Four 32-bit words: Philox's counter and its output.
struct RandomWords {
  std::uint32_t words[4];
};

/// All 64 bits of a product. Said outright on CUDA, where nvcc would widen both factors first and
/// add the products of their upper halves.
TRIACCEL_HOST_DEVICE inline std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  std::uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return std::uint64_t{a} * b;
#endif
}

inline constexpr int kPhiloxRounds = 10;
inline constexpr std::uint32_t kPhiloxStep0 = 0x9E3779B9u;  // golden ratio
inline constexpr std::uint32_t kPhiloxStep1 = 0xBB67AE85u;  // sqrt(3) - 1

TRIACCEL_HOST_DEVICE inline void philox_round(std::uint32_t (&c)[4], std::uint32_t k0,
                                              std::uint32_t k1) {
  const std::uint64_t p0 = wide_product(0xD2511F53u, c[0]);
  const std::uint64_t p1 = wide_product(0xCD9E8D57u, c[2]);
  c[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0;
  c[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1;
  c[1] = static_cast<std::uint32_t>(p1);
  c[3] = static_cast<std::uint32_t>(p0);
}

/// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): the output is a function of
/// (seed, counter) alone, never of launch geometry, thread count or what was drawn before. Any
/// kernel on any device can therefore redo any draw.
TRIACCEL_HOST_DEVICE inline RandomWords random_words(std::uint64_t seed, std::uint64_t counter_low,
                                                     std::uint64_t counter_high = 0) {
  RandomWords c = {
      {static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
       static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)}};
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(c.words, k0, k1);
    k0 += kPhiloxStep0;
    k1 += kPhiloxStep1;
  }
  return c;
}

/// The keys of all rounds, for kernels that draw often: they depend on the seed alone. Seven rounds
/// are the fewest that withstand the tests of BigCrush.
template <int rounds>
struct RandomKeys {
  std::uint32_t of_round[rounds][2];
};

template <int rounds>
inline RandomKeys<rounds> random_keys(std::uint64_t seed) {
  RandomKeys<rounds> keys = {};
  for (std::uint32_t round = 0; round < rounds; ++round) {
    keys.of_round[round][0] = static_cast<std::uint32_t>(seed) + round * kPhiloxStep0;
    keys.of_round[round][1] = static_cast<std::uint32_t>(seed >> 32) + round * kPhiloxStep1;
  }
  return keys;
}

/// With ten rounds, random_words of the keys' seed.
template <int rounds>
TRIACCEL_HOST_DEVICE inline RandomWords random_words(const RandomKeys<rounds>& keys,
                                                     std::uint64_t counter_low,
                                                     std::uint64_t counter_high) {
  RandomWords c = {
      {static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
       static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)}};
  for (int round = 0; round < rounds; ++round)
    philox_round(c.words, keys.of_round[round][0], keys.of_round[round][1]);
  return c;
}

/// Uniform integer in [0, bound), bound > 0, from one word. The bias is below bound / 2^32.
TRIACCEL_HOST_DEVICE inline std::uint32_t bounded(std::uint32_t word, std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * bound) >> 32);
}

/// Uniform float in [0, 1) on a grid of 2^-24: exact in FP32, so equal on every device.
TRIACCEL_HOST_DEVICE inline float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1.0p-24f;
}

/// Folds one value into a hash by the finaliser of SplitMix64, which spreads every bit. The same on
/// every machine.
constexpr std::uint64_t mixed_hash(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t z = hash + 0x9E3779B97F4A7C15u + value;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace triaccel
