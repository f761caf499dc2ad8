#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_plan.h"

// What SavedCodec::Frequency stores, as far as sizes and plans decide it: everything but the
// quantized values. Layout: Note [Tiles of blocks] in
// kernels/compression/frequency/frequency_codec.h.
namespace triaccel {

/// Sides of the blocks that are transformed.
constexpr bool is_frequency_block(int block) { return block == 8 || block == 7 || block == 4; }

inline constexpr int kMaxCoefficients = 64;
constexpr int coefficients_of(int block) { return block * block; }

/// Bands by frequency row + column: {0}, {1, 2}, {3, 4}, {5..7}, {8..14} for 8 x 8,
/// {0}, {1, 2}, {3, 4}, {5, 6}, {7..12} for 7 x 7, {0}, {1}, {2}, {3}, {4..6} for 4 x 4.
constexpr int band_of(int block, int row, int column) {
  const int frequency = row + column;
  if (block == 4) return frequency < 4 ? frequency : 4;
  if (frequency > block - 1) return 4;
  return frequency == 0 ? 0 : frequency < 3 ? 1 : frequency < 5 ? 2 : 3;
}

struct CoefficientPlace {
  int row, column;
};

/// Coefficients by frequency row + column, then by row.
constexpr CoefficientPlace by_frequency(int block, int number) {
  for (int frequency = 0; frequency < 2 * block - 1; ++frequency) {
    const int first = frequency < block ? 0 : frequency - block + 1;
    const int count = frequency < block ? frequency + 1 : 2 * block - 1 - frequency;
    if (number < count) return {first + number, frequency - first - number};
    number -= count;
  }
  return {0, 0};
}

/// Coefficients of a band: 1, 5, 9, 21, 28 for 8 x 8, 1, 5, 9, 13, 21 and 1, 2, 3, 4, 6.
constexpr int band_size(int block, int band) {
  int size = 0;
  for (int row = 0; row < block; ++row)
    for (int column = 0; column < block; ++column) size += band_of(block, row, column) == band;
  return size;
}

/// The coefficient that is encoded as number `place`. Four that follow each other are of one band
/// and have the same bits, but for the first four, which are the first ones of bands 0 to 3; those
/// of 4 x 4 blocks simply follow by frequency.
constexpr CoefficientPlace coefficient_at(int block, int place) {
  constexpr int firsts[] = {0, 1, 6, 15};  // by frequency
  if (block == 4) return by_frequency(block, place);
  if (place < 4) return by_frequency(block, firsts[place]);
  return by_frequency(block, place < 8 ? place - 2 : place < 16 ? place - 1 : place);
}

constexpr int band_at(int block, int place) {
  const CoefficientPlace at = coefficient_at(block, place);
  return band_of(block, at.row, at.column);
}

/// Blocks whose quantized values one lane stores together, in whole bytes.
constexpr int blocks_of_chunk(int block) { return block == 4 ? 4 : 1; }

using CoefficientBits = std::array<std::uint8_t, kMaxCoefficients>;

/// Bits, 0 to 8, of each coefficient in the order they are encoded. A band of n coefficients and e
/// eighths has n * e / 8 of them, rounded to the nearest: e / 8 for each, and one more for the
/// lowest frequencies as far as equal bits of four allow. Band 0 has at least one. The rest, and
/// what a chunk then lacks of whole bytes, goes to the lowest frequencies that have bits.
/// UsageError for other blocks and more than 64 eighths.
CoefficientBits coefficient_bits(int block,
                                 const std::array<std::uint8_t, kFrequencyBands>& band_eighths);

/// Elements that are encoded as maps: extents and element strides of [image][channel][row][column].
struct BlockMap {
  std::int64_t images = 0, channels = 0, rows = 0, columns = 0;
  std::int64_t image_stride = 0, channel_stride = 0, row_stride = 0, column_stride = 0;
  std::int64_t offset = 0;  // elements before the first one
  bool operator==(const BlockMap&) const = default;
};

/// A tensor as maps, which are encoded one behind the other; none where it has no maps.
/// [N, C, H, W] is one map. [N, T, C] has one whose rows and columns are the square of its T
/// tokens; where T - 1 is a square, a second one of the N first tokens, which stand apart; where
/// neither is, rows of eight, four or seven tokens that follow each other. Without strides the last
/// dimension is dense, and so on.
std::vector<BlockMap> block_maps(std::span<const std::int64_t> sizes,
                                 std::span<const std::int64_t> strides);
std::vector<BlockMap> block_maps(std::span<const std::int64_t> sizes);

inline constexpr int kTileUnits = 32;       // units of a tile
inline constexpr int kUnitChunks = 8;       // chunks of a unit
inline constexpr int kUnitHeaderBytes = 8;  // of a unit

/// Where the encoded values of a map are stored.
struct FrequencyLayout {
  std::int64_t block_rows = 0, block_columns = 0;
  std::int64_t positions = 0;  // of blocks, in every channel
  std::int64_t units = 0;      // (positions that share ranges, channel)
  std::int64_t tiles = 0;
  std::int64_t full_tiles = 0;  // those that have every chunk; the others have last_chunks of them
  int last_chunks = 0;
  int chunk_bits = 0;  // of one lane; a multiple of 8

  std::int64_t chunk_bytes() const { return std::int64_t{chunk_bits} * (kTileUnits / 8); }
  std::int64_t header_bytes() const { return tiles * kTileUnits * kUnitHeaderBytes; }
  /// Where a tile's first chunk begins, in bytes behind the headers.
  std::int64_t tile_offset(std::int64_t tile) const {
    const std::int64_t full = tile < full_tiles ? tile : full_tiles;
    return (full * kUnitChunks + (tile - full) * last_chunks) * chunk_bytes();
  }
  int chunks_of_tile(std::int64_t tile) const {
    return tile < full_tiles ? kUnitChunks : last_chunks;
  }
  std::int64_t bytes() const { return header_bytes() + tile_offset(tiles); }
};

FrequencyLayout frequency_layout(const BlockMap& map, int block, const CoefficientBits& bits);

/// What a tensor of such sizes takes; 0 where it has no elements. UsageError where it has no maps.
std::int64_t frequency_bytes(const SavedPlan& plan, std::span<const std::int64_t> sizes);

}  // namespace triaccel
