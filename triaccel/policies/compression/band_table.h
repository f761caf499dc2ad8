#pragma once

#include <array>
#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/core/frequency_bands.h"
#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// The index of a side in kTransformBlocks.
constexpr std::size_t transform_index(std::uint8_t block) {
  for (std::size_t t = 0; t < kTransformBlocks.size(); ++t)
    if (kTransformBlocks[t] == block) return t;
  ensure(false, "blocks are those of kTransformBlocks");
  return 0;
}

/// band_size() of every block and band, looked up.
inline constexpr auto kBandSizes = [] {
  std::array<std::array<int, kFrequencyBands>, kTransformBlocks.size()> sizes = {};
  for (std::size_t t = 1; t < sizes.size(); ++t)
    for (int band = 0; band < kFrequencyBands; ++band)
      sizes[t][static_cast<std::size_t>(band)] = band_size(kTransformBlocks[t], band);
  return sizes;
}();

/// How many of `size` coefficients have a bit more than the others in a band of so many eighths, as
/// coefficient_bits gives them out.
constexpr int longer_coefficients(int size, int eighths) { return (size * (eighths % 8) + 4) / 8; }

/// Bits of all coefficients of a block, before what is left of a byte is filled up.
constexpr int asked_bits(const SavedPlan& plan) {
  const auto& sizes = kBandSizes[transform_index(plan.block)];
  int bits = 0;
  for (std::size_t band = 0; band < kFrequencyBands; ++band) {
    const int asked = plan.band_eighths[band];
    const int eighths = band == 0 && asked < 8 ? 8 : asked;
    bits += sizes[band] * (eighths / 8) + longer_coefficients(sizes[band], eighths);
  }
  return bits;
}

/// The same with it: what coefficient_bits adds up to.
constexpr int stored_bits(const SavedPlan& plan) {
  const int whole = 8 / blocks_of_chunk(plan.block);
  return round_up(asked_bits(plan), whole);
}

}  // namespace triaccel
