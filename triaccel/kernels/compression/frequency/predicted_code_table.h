#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/base/random.h"
#include "triaccel/core/predicted_blocks.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"

// What a plan's bits mean for predicted blocks, worked out once.
namespace triaccel::kernels {

inline constexpr int kMaxHashed = 14;  // coefficients
inline constexpr int kLevels = kCoarsestLevel - kFinestLevel + 1;
inline constexpr int kMaxCodeBits = 8;

/// Predictions are chosen for all levels of one of these, before it is known which one fits.
enum LevelRange : int { kPlannedOrFiner, kCoarser };

constexpr int first_level(int range) { return range == kCoarser ? 1 : kFinestLevel; }
constexpr int last_level(int range) { return range == kCoarser ? kCoarsestLevel : 0; }

struct PredictedTables {
  std::int32_t coefficients = 0;
  std::int32_t unit_blocks = 0;
  std::uint8_t bits[kMaxCoefficients] = {};
  std::uint8_t band[kMaxCoefficients] = {};
  std::int32_t hashed = 0;
  std::uint8_t hashed_places[kMaxHashed] = {};
  std::uint16_t signs[kMaxHashed] = {};                    // a bit for each projection
  std::int32_t block_bits[kLevels][kPredictedKinds] = {};  // by level, less the finest
  bool pays[2][kPredictedKinds] = {};                      // by LevelRange
  float reach[2][kPredictedKinds][kMaxCodeBits + 1] = {};  // of a range, by the plan's bits
  float error[2][kMaxCodeBits + 1] = {};                   // likewise: the largest of a code
  float levels_less_one[kMaxCodeBits + 1] = {};            // by the bits of a level …
  float inverse_levels[kMaxCodeBits + 1] = {};             // … and 1 over it
};

inline PredictedTables predicted_tables(int block, const CoefficientBits& bits) {
  PredictedTables tables;
  tables.coefficients = coefficients_of(block);
  tables.unit_blocks = kUnitChunks * blocks_of_chunk(block);
  const int hashed = block == 4 ? 9 : kMaxHashed;
  for (int place = 0; place < tables.coefficients; ++place) {
    tables.bits[place] = bits[static_cast<std::size_t>(place)];
    tables.band[place] = static_cast<std::uint8_t>(band_at(block, place));
    const CoefficientPlace at = coefficient_at(block, place);
    for (int i = 1; i <= hashed; ++i) {
      const CoefficientPlace low = by_frequency(block, i);
      if (low.row != at.row || low.column != at.column) continue;
      constexpr std::uint64_t seed = 0x5170a54;  // any: the projections are the same in all runs
      tables.signs[tables.hashed] =
          static_cast<std::uint16_t>(random_words(seed, static_cast<std::uint64_t>(i)).words[0]);
      tables.hashed_places[tables.hashed++] = static_cast<std::uint8_t>(place);
    }
  }
  for (int level = kFinestLevel; level <= kCoarsestLevel; ++level)
    for (int kind = 0; kind < kPredictedKinds; ++kind)
      tables.block_bits[level - kFinestLevel][kind] =
          predicted_block_bits(block, bits, level, kind);
  for (int range : {kPlannedOrFiner, kCoarser})
    for (int kind = 1; kind < kPredictedKinds; ++kind) {
      tables.pays[range][kind] = true;
      for (int level = first_level(range); level <= last_level(range); ++level) {
        const auto& taken = tables.block_bits[level - kFinestLevel];
        tables.pays[range][kind] = tables.pays[range][kind] && taken[kind] < taken[0];
      }
    }
  const auto levels = [](int width) { return static_cast<float>((1 << width) - 1); };
  for (int width = 1; width <= kMaxCodeBits; ++width) {
    tables.levels_less_one[width] = levels(width);
    tables.inverse_levels[width] = 1.0f / levels(width);
    for (int range : {kPlannedOrFiner, kCoarser}) {
      const int fewer = range == kCoarser ? std::max(1, width - 1) : width;
      const int more = range == kCoarser ? width : std::min(kMaxCodeBits, width + 1);
      // Half a step and half of what codes span, short of it by more than rounding adds.
      tables.error[range][width] = kWidth * 0.5001f / levels(fewer);
      for (int kind = 1; kind < kPredictedKinds; ++kind) {
        const auto span = [&](int leveled) {
          return levels(std::max(1, leveled - kind)) / levels(leveled);
        };
        tables.reach[range][kind][width] = kWidth * 0.4999f * std::min(span(fewer), span(more));
      }
    }
  }
  return tables;
}

}  // namespace triaccel::kernels
