#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "triaccel/kernels/compression/frequency/frequency_codec_block.h"
#include "triaccel/kernels/compression/frequency/predicted_codec.h"
#include "triaccel/kernels/compression/frequency/predicted_codec_math.h"

// What coding and decoding of Note [Predicted blocks] share: where blocks and their codes lie.
namespace triaccel::kernels::cpu {

/// What all tiles share.
struct PredictedWork {
  explicit PredictedWork(const PredictedCoding& coded)
      : coding(coded),
        blocks(frequency_layout(coded.map, coded.block, coded.bits)),
        layout(predicted_layout(coded.map, coded.block, coded.bits, coded.saved)),
        tables(predicted_tables(coded.block, coded.bits)),
        draws(coded.key),
        high(draws.high()) {
    for (int place = 0; place < tables.coefficients; ++place) {
      const CoefficientPlace at = coefficient_at(coding.block, place);
      number[static_cast<std::size_t>(place)] = at.row * coding.block + at.column;
    }
  }

  BlockPlace place(std::int64_t tile, int at) const {
    const std::int64_t position = tile / layout.channels * kPredictedTile + at;
    const std::int64_t unit =
        position / layout.unit_blocks * layout.channels + tile % layout.channels;
    return place_of(coding.map, blocks, coding.block, unit,
                    static_cast<int>(position % layout.unit_blocks));
  }

  PredictedCoding coding;
  FrequencyLayout blocks;
  PredictedLayout layout;
  PredictedTables tables;
  DitherDraws draws;
  std::uint64_t high;
  std::array<int, kMaxCoefficients> number = {};  // of a place, by row and column
};

/// The parts of a tile's codes.
template <typename Byte>
struct TileParts {
  Byte* headers;
  Byte* words;  // the level, kinds and codes

  TileParts(const PredictedWork& work, std::int64_t tile, Byte* codes)
      : headers(codes + work.layout.offset(tile)),
        words(headers + work.layout.tile(tile).units * kUnitHeaderBytes) {}
};

/// A tile's coefficients, by [place][block], and the ranges of its units.
struct PredictedTile {
  std::vector<float> columns = std::vector<float>(kMaxCoefficients * kPredictedTile);
  std::array<UnitScale, kMaxUnits> scales = {};

  float* column(int block) { return columns.data() + block; }
  const UnitScale& scale(const PredictedWork& work, int block) const {
    return scales[static_cast<std::size_t>(block / work.layout.unit_blocks)];
  }
};

}  // namespace triaccel::kernels::cpu
