#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8 {

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
