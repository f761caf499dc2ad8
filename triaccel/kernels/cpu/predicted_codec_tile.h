#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "triaccel/kernels/cpu/frequency_codec_place.h"
#include "triaccel/kernels/frequency_codec_math.h"
#include "triaccel/kernels/predicted_codec.h"

// What coding and decoding of Note [Predicted blocks] share: where blocks lie, how wide their codes
// are, and what they decode to, which later blocks are predicted from.
namespace triaccel::kernels::cpu {

inline constexpr int kGainOne = 128;

/// Coefficients by row and column, as transform_block leaves them.
using PredictedBlock = std::array<float, kMostCoefficients>;

/// What all tiles share.
struct PredictedWork {
  explicit PredictedWork(const PredictedCoding& coded)
      : coding(coded),
        layout(frequency_layout(coded.map, coded.block, coded.bits)),
        draws(coded.key),
        high(draws.high()),
        unit_blocks(kUnitChunks * blocks_of_chunk(coded.block)),
        channel_tiles((layout.positions + kPredictedTile - 1) / kPredictedTile) {
    for (int place = 0; place < coefficients(); ++place) {
      const CoefficientPlace at = coefficient_at(coding.block, place);
      number[static_cast<std::size_t>(place)] = at.row * coding.block + at.column;
      band[static_cast<std::size_t>(place)] = band_of(coding.block, at.row, at.column);
    }
  }

  int coefficients() const { return coefficients_of(coding.block); }
  std::int64_t tiles() const { return coding.map.channels * channel_tiles; }
  int blocks_of(std::int64_t tile) const {
    const std::int64_t left = layout.positions - tile % channel_tiles * kPredictedTile;
    return static_cast<int>(std::min<std::int64_t>(kPredictedTile, left));
  }
  int units_of(std::int64_t tile) const {
    return (blocks_of(tile) + unit_blocks - 1) / unit_blocks;
  }

  BlockPlace place(std::int64_t tile, int at) const {
    const std::int64_t position = tile % channel_tiles * kPredictedTile + at;
    const std::int64_t unit = position / unit_blocks * coding.map.channels + tile / channel_tiles;
    return place_of(coding.map, layout, coding.block, unit,
                    static_cast<int>(position % unit_blocks));
  }

  /// The random offsets of a block's codes.
  std::array<std::uint32_t, kMostCoefficients> offsets(std::int64_t tile, int at) const {
    std::array<std::uint32_t, kMostCoefficients> all = {};
    const auto first = static_cast<std::uint64_t>(tile * kPredictedTile + at) * 4;
    for (int call = 0; call * kOffsetsOfCall < coefficients(); ++call) {
      const OffsetWords words =
          offset_words(draws.words(first + static_cast<std::uint64_t>(call), high));
      for (int i = 0; i < kOffsetsOfCall; ++i)
        all[static_cast<std::size_t>(call * kOffsetsOfCall + i)] =
            offset_bits(words.words[i / 2], i % 2);
    }
    return all;
  }

  PredictedCoding coding;
  FrequencyLayout layout;
  DitherDraws draws;
  std::uint64_t high;
  int unit_blocks;
  std::int64_t channel_tiles;
  std::array<int, kMostCoefficients> number = {};  // of a place, by row and column
  std::array<int, kMostCoefficients> band = {};    // of a place
};

/// How a block is predicted; not at all where `shorter` is 0.
struct Prediction {
  int shorter = 0;  // bits of a code
  int from = 0;     // block of the tile
  int gain = 0;     // in 128ths

  float times(float decoded) const {
    return decoded * (static_cast<float>(gain) * (1.0f / kGainOne));
  }
};

/// One coefficient of a block: its bits with a prediction and without.
struct CodeWidth {
  int full, held;

  CodeWidth(int bits, int place, const Prediction& prediction)
      : full(bits),
        held(bits == 0    ? 0
             : place == 0 ? bits
                          : std::max(1, bits - prediction.shorter)) {}
  float top() const { return static_cast<float>((1 << full) - 1); }
  /// What codes reach, in both directions, of a range; short of it by more than rounding adds.
  float reach(float range) const {
    if (held == full) return range;
    return range * kWidth * 0.4999f * static_cast<float>((1 << held) - 1) / top();
  }
};

/// What is known of a tile while its blocks are coded or decoded one after the other.
struct PredictedTile {
  std::array<UnitRanges, kPredictedTile / kUnitChunks> ranges = {};
  std::vector<PredictedBlock> decoded = std::vector<PredictedBlock>(kPredictedTile);

  const UnitRanges& ranges_of_block(const PredictedWork& work, int at) const {
    return ranges[static_cast<std::size_t>(at / work.unit_blocks)];
  }
  float predicted(const Prediction& prediction, int place, int number) const {
    if (prediction.shorter == 0 || place == 0) return 0.0f;
    return prediction.times(
        decoded[static_cast<std::size_t>(prediction.from)][static_cast<std::size_t>(number)]);
  }
};

/// The coefficient that `code` stands for, kept for blocks to be predicted from.
inline void keep_decoded(const PredictedWork& work, PredictedTile& tile, int at,
                         const Prediction& prediction, int place, std::uint32_t code,
                         std::uint32_t offset) {
  const auto p = static_cast<std::size_t>(place);
  const UnitRanges& ranges = tile.ranges_of_block(work, at);
  const CodeWidth width(work.coding.bits[p], place, prediction);
  float value = place == 0 ? middle_of(ranges) : 0.0f;
  if (width.full > 0) {
    const float step = band_range(ranges, work.band[p]) * kWidth * (1.0f / width.top());
    const float bias = 256.0f + static_cast<float>((1 << width.held) / 2);
    value += decoded(code << 15, offset, step, bias * step) +
             tile.predicted(prediction, place, work.number[p]);
  }
  tile.decoded[static_cast<std::size_t>(at)][static_cast<std::size_t>(work.number[p])] = value;
}

}  // namespace triaccel::kernels::cpu
