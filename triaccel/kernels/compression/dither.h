#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"

namespace triaccel::kernels {

/// How a value between two levels is rounded when it is encoded, and read when it is decoded.
enum class Rounding : std::uint8_t {
  Dither,  // code = floor(z + u), read as code - u + 1/2: unbiased, error uniform, variance 1/12
  Stochastic,  // code = floor(z + u), read as code: unbiased, variance 1/6 on average
  Nearest,     // code = floor(z + 1/2): all of its error is bias; to compare with
};

/// Names the random offsets of one stored tensor. The same key gives the same offsets on every
/// device and in whatever order they are drawn, so decoding redraws what coding drew.
struct DitherKey {
  std::uint64_t seed = 0;              // of the run
  std::uint32_t tensor = 0;            // its number within a step
  const std::int64_t* step = nullptr;  // in the kernel's memory, so that a captured step moves on;
                                       // null: 0. Unchanged between coding and decoding.
};

/// Seven, the fewest that withstand the tests of BigCrush: drawing is a good part of the codecs'
/// work.
inline constexpr int kDitherRounds = 7;

/// The random words of a key, with the work that all calls share done. As an argument of a kernel
/// it keeps the keys of all rounds in constant memory, where they cost no instruction.
struct DitherDraws {
  explicit DitherDraws(const DitherKey& key)
      : keys(random_keys<kDitherRounds>(key.seed)), tensor(key.tensor), step(key.step) {}

  /// The upper half of the counter: read it once, the step lies in memory.
  TRIACCEL_HOST_DEVICE std::uint64_t high() const {
    return (step == nullptr ? 0 : static_cast<std::uint64_t>(*step)) << 32 | tensor;
  }

  /// Those of one call; `high` is high().
  TRIACCEL_HOST_DEVICE RandomWords words(std::uint64_t call, std::uint64_t high) const {
    return random_words(keys, call, high);
  }

  RandomKeys<kDitherRounds> keys;
  std::uint32_t tensor;
  const std::int64_t* step;
};

/// Of a word the offset at place 0 or 1, sixteen bits: uniform in (0, 1), centred, exact in FP32.
TRIACCEL_HOST_DEVICE inline float dither_offset(std::uint32_t word, int place) {
  const std::uint32_t bits = word >> (place * 16) & 0xFFFFu;
  return (static_cast<float>(bits) + 0.5f) * 0x1.0p-16f;
}

/// Where drawing costs much, sixteen offsets come from a call: every byte leads one and ends
/// another, so each is uniform, and any two are as good as independent.
inline constexpr int kOffsetsOfCall = 16;

struct OffsetWords {
  std::uint32_t words[8];  // the drawn ones, and the same turned right by eight bits
};

/// By eight bits, to the right.
TRIACCEL_HOST_DEVICE inline std::uint32_t turned(std::uint32_t word) {
  return word >> 8 | word << 24;
}

TRIACCEL_HOST_DEVICE inline OffsetWords offset_words(const RandomWords& drawn) {
  OffsetWords offsets;
  for (int i = 0; i < 4; ++i) {
    offsets.words[i] = drawn.words[i];
    offsets.words[i + 4] = turned(drawn.words[i]);
#ifdef __CUDA_ARCH__
    asm("" : "+r"(offsets.words[i + 4]));  // nvcc would turn it again for each of its offsets
#endif
  }
  return offsets;
}

}  // namespace triaccel::kernels
