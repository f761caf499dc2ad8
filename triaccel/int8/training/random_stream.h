#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"

namespace triaccel::int8 {

/// Independent random streams by purpose.
enum class RandomStream : std::uint32_t {
  Perturbation = 0,
  SignUpdate = 0x5D3A91C7u,
  LossError = 0x91E4B6A3u,
  GradientUpdate = 0x3C7F20D5u,
  WeightHalving = 0xE86B14F9u,
  InitialWeights = 0xA7519D2Bu,
};

/// Philox key of a stream in one step.
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

/// Calls body(random, done, count) for the elements index .. index + total in runs of up to
/// kDrawnTogether: `random` holds their 16 bits, `done` counts those before.
template <typename Body>
void for_random_runs(std::uint64_t key, std::int64_t index, std::int64_t total, Body body) {
  std::uint16_t random[kDrawnTogether];
  std::int64_t done = 0;
  while (done < total) {
    const std::int64_t skipped = (index + done) & 7;
    draw_half_words(key, static_cast<std::uint64_t>(index + done - skipped), random);
    const std::int64_t count = std::min(kDrawnTogether - skipped, total - done);
    body(static_cast<const std::uint16_t*>(random + skipped), done,
         static_cast<std::int32_t>(count));
    done += count;
  }
}

}  // namespace triaccel::int8
