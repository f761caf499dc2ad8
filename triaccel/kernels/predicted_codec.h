#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/core/frequency_bands.h"
#include "triaccel/kernels/dither.h"
#include "triaccel/kernels/tensor_list.h"

// Note [Predicted blocks]
// Blocks are cut, transformed and given ranges as in Note [Tiles of blocks], but coded one behind
// the other: 256 positions of one channel that follow each other are a tile, and a block may be
// coded as its difference from an earlier one of its tile. That is found by a hash of its lowest
// frequencies (SimHash: the signs of sixteen random projections), and taken where the difference is
// so much smaller than the block's range that codes of fewer bits with the same step reach it. So
// every coefficient has the error that it would have had, and none is biased, whatever is predicted
// from what; the first one of a block is not predicted.
//
//   begins   [tile]    64 bits: where a tile lies, in bytes
//   tile     [unit]    headers of 64 bits, see frequency_codec_math.h
//            [block]   one bit: is it predicted? If so, 2 bits: how many its codes are shorter, one
//                      of them always staying; 8 bits: which block of the tile it is predicted
//                      from; 8 bits: times how many 128ths. Then its codes, the first bit lowest.
//
// A tile begins with a byte; tiles are numbered by (channel, positions). Code i of a block has the
// random offset i % 16 of call 4 * (its number among all blocks, by tile) + i / 16.
namespace triaccel::kernels {

inline constexpr int kPredictedTile = 256;  // blocks

/// How a map is coded. Decode with the same; only strides and type may differ.
struct PredictedCoding {
  BlockMap map = {};
  FloatType type = FloatType::F32;
  int block = 8;
  CoefficientBits bits = {};  // coefficient_bits(block, ...)
  DitherKey key = {};
};

/// What looking for similar blocks found.
struct PredictionCounts {
  std::int64_t blocks = 0;
  std::int64_t candidates = 0;   // blocks with an earlier one of the same hash
  std::int64_t predicted = 0;    // of them, those that it paid for
  std::int64_t plain_bytes = 0;  // of the tiles without prediction …
  std::int64_t bytes = 0;        // … and as they are
};

/// The size follows from the values, so nothing of it can be captured: CPU alone. Units that hold a
/// NaN or an infinity decode to NaN; `counts` and *not_finite (null: not wanted) are added to.
namespace cpu {
std::vector<std::uint8_t> encode_predicted(const PredictedCoding& coding, const void* values,
                                           PredictionCounts& counts, std::int32_t* not_finite);
void decode_predicted(const PredictedCoding& coding, const std::uint8_t* codes, void* values);
}  // namespace cpu

}  // namespace triaccel::kernels
