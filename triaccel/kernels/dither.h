#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"

namespace triaccel::kernels {

/// How a value between two levels is rounded when it is coded, and read when it is decoded.
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

/// The offsets of eight neighbouring elements, sixteen bits each.
TRIACCEL_HOST_DEVICE inline RandomWords dither_words(const DitherKey& key, std::uint64_t group) {
  const std::uint64_t step = key.step == nullptr ? 0 : static_cast<std::uint64_t>(*key.step);
  return random_words(key.seed, group, step << 32 | key.tensor);
}

/// Offset of the element at place 0..7 of the group: uniform in (0, 1), centred, exact in FP32.
TRIACCEL_HOST_DEVICE inline float dither_offset(const RandomWords& words, int place) {
  const std::uint32_t bits = words.words[place / 2] >> (place % 2 * 16) & 0xFFFFu;
  return (static_cast<float>(bits) + 0.5f) * 0x1.0p-16f;
}

}  // namespace triaccel::kernels
