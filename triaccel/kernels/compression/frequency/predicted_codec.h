#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/core/predicted_blocks.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/compression/dither.h"

// Note [Predicted blocks]
// Blocks are cut, transformed and given ranges as in Note [Tiles of blocks], but 256 positions of
// one channel that follow each other are a tile, in which a block may be encoded as its difference
// from another one times a factor. That one is the first of the tile with the same hash of its
// lowest frequencies (SimHash: the signs of sixteen random projections), so it is not predicted
// itself and tiles decode in two rounds. It is taken where codes of fewer bits and the same step
// reach the difference: every coefficient then has the error that it would have had. The first
// coefficient of a block is not predicted.
//
// A tile's room is fixed beforehand, at what a plan says that predictions save. Where fewer blocks
// are predicted than that takes, codes of the tile lose a bit, where more are, they gain one: its
// level, see core/predicted_blocks.h. What is predicted from what and at which level depends on
// values alone, never on random offsets, so that nothing is biased by it.
//
//   tiles [positions][channel]
//     headers [unit]   64 bits, see frequency_codec_math.h
//     level            32 bits: level + 8
//     kinds   [block]  2 bits: not predicted, or by how many bits codes are shorter, to whole words
//     codes   [block]  if predicted, 8 bits: from which block of the tile; 8 bits: times how many
//                      128ths. Then its codes, the first bit lowest. The rest of the room is zero.
//
// A tile fills whole 64-bit words. Code i of a block has the random offset i of call
// 256 * tile + block: see chunk_offsets.
namespace triaccel::kernels {

/// How a map is coded. Decode with the same; only strides and type may differ.
struct PredictedCoding {
  BlockMap map = {};  // fewer than 2^31 positions and units, as in frequency_codec.h
  FloatType type = FloatType::F32;
  int block = 8;
  CoefficientBits bits = {};  // coefficient_bits(block, ...)
  int saved = 0;              // 256ths, as predicted_layout takes them
  DitherKey key = {};
};

/// encode_predicted writes predicted_layout(...).bytes() to `codes`, which start at a multiple of 8
/// bytes. Units that hold a NaN or an infinity decode to NaN; *counts and *not_finite (null: not
/// wanted), in the kernel's memory, are added to.
namespace cpu {
void encode_predicted(const PredictedCoding& coding, const void* values, std::uint8_t* codes,
                      PredictionCounts* counts, std::int32_t* not_finite);
void decode_predicted(const PredictedCoding& coding, const std::uint8_t* codes, void* values);
}  // namespace cpu
namespace cuda {
void encode_predicted(const PredictedCoding& coding, const void* values, std::uint8_t* codes,
                      PredictionCounts* counts, std::int32_t* not_finite, cudaStream_t stream);
void decode_predicted(const PredictedCoding& coding, const std::uint8_t* codes, void* values,
                      cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
