#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/core/frequency_bands.h"

// What predicted blocks take, as far as sizes and plans decide it: Note [Predicted blocks],
// kernels/compression/frequency/predicted_codec.h.
namespace triaccel {

inline constexpr int kPredictedTile = 256;  // blocks
inline constexpr int kPredictedKinds = 4;   // not predicted, or with 1 to 3 bits fewer
inline constexpr int kPredictionBits = 16;  // of a predicted block: which one from, and the factor

/// How far a tile's codes are from the plan's bits, so that they fit their room: at +-8 every code
/// has a bit less or more, at less an eighth of them for each level, high frequencies first to lose
/// one and low ones first to gain one. Codes that have bits keep one.
inline constexpr int kFinestLevel = -8, kCoarsestLevel = 8;

/// Bits of a coefficient that the plan gives `bits`.
constexpr int leveled_bits(int bits, int place, int coefficients, int level) {
  if (bits == 0) return 0;
  if (level > 0)
    return place >= coefficients - coefficients * level / kCoarsestLevel ? std::max(1, bits - 1)
                                                                         : bits;
  return place < coefficients * level / kFinestLevel ? std::min(8, bits + 1) : bits;
}

/// Those that are stored of them in a block of this kind.
constexpr int held_bits(int leveled, int place, int kind) {
  return leveled == 0 || place == 0 ? leveled : std::max(1, leveled - kind);
}

/// Of a whole block, including the description of its prediction.
int predicted_block_bits(int block, const CoefficientBits& bits, int level, int kind);

/// The same without prediction and at the bits of a plan of Frequency.
int plain_block_bits(const SavedPlan& plan);

/// Where the encoded values of a map are stored.
struct PredictedLayout {
  struct Tile {
    int blocks = 0;
    int units = 0;       // with ranges of their own
    int kind_words = 0;  // of 32 bits
    int room = 0;        // bits for quantized values
    /// Of 32 bits, behind the headers: the level, kinds, codes, to whole 64 bits.
    constexpr int words() const { return (1 + kind_words + (room + 31) / 32 + 1) / 2 * 2; }
    constexpr std::int64_t bytes() const {
      return std::int64_t{4} * words() + std::int64_t{units} * kUnitHeaderBytes;
    }
  };
  int unit_blocks = 0;
  std::int64_t channels = 0, channel_tiles = 0;
  Tile full = {}, last = {};  // the last one of every channel

  std::int64_t tiles() const { return channels * channel_tiles; }
  bool is_last(std::int64_t tile) const { return tile / channels == channel_tiles - 1; }
  const Tile& tile(std::int64_t number) const { return is_last(number) ? last : full; }
  /// Where a tile begins, in bytes.
  std::int64_t offset(std::int64_t tile) const {
    const std::int64_t before = std::min(tile, channels * (channel_tiles - 1));
    return before * full.bytes() + (tile - before) * last.bytes();
  }
  std::int64_t bytes() const { return tiles() == 0 ? 0 : offset(tiles()); }
};

/// `saved`: 256ths of the bits of codes that tiles do without, as far as one bit per code allows.
PredictedLayout predicted_layout(const BlockMap& map, int block, const CoefficientBits& bits,
                                 int saved);

/// What the search for similar blocks found.
struct PredictionCounts {
  std::int64_t blocks = 0;
  std::int64_t candidates = 0;  // with an earlier block of the same hash
  std::int64_t predicted = 0;   // of them, those whose difference needs fewer bits
  std::int64_t saved_bits = 0;  // by these, less the description of predictions
  PredictionCounts& operator+=(const PredictionCounts& more) {
    blocks += more.blocks;
    candidates += more.candidates;
    predicted += more.predicted;
    saved_bits += more.saved_bits;
    return *this;
  }
  bool operator==(const PredictionCounts&) const = default;
};

}  // namespace triaccel
