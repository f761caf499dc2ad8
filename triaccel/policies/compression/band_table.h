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
  ensure(false, "block size is one of kTransformBlocks");
  return 0;
}

/// Lookup table of band_size() for every block and band.
inline constexpr auto kBandSizes = [] {
  std::array<std::array<int, kFrequencyBands>, kTransformBlocks.size()> sizes = {};
  for (std::size_t t = 1; t < sizes.size(); ++t)
    for (int band = 0; band < kFrequencyBands; ++band)
      sizes[t][static_cast<std::size_t>(band)] = band_size(kTransformBlocks[t], band);
  return sizes;
}();

/// Number of the `size` coefficients of a band that get one extra bit at a width in eighths, as
/// assigned by coefficient_bits.
constexpr int longer_coefficients(int size, int eighths) { return (size * (eighths % 8) + 4) / 8; }

/// Bits of all coefficients of a block, before padding to whole bytes.
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

/// The same with padding: the sum of coefficient_bits.
constexpr int stored_bits(const SavedPlan& plan) {
  const int whole = 8 / blocks_of_chunk(plan.block);
  return round_up(asked_bits(plan), whole);
}

}  // namespace triaccel
