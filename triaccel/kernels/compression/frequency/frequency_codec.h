#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/core/frequency_bands.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/compression/codec_map.h"
#include "triaccel/kernels/compression/dither.h"

// Note [Tiles of blocks]
// Every channel of every image is cut into blocks of 8 x 8, 7 x 7 or 4 x 4 elements; where the map
// ends inside a block, its last row and column are repeated. Blocks are transformed (DCT-II) and
// their coefficients encoded in the order of coefficient_at (four 4 x 4 blocks at once: one
// coefficient of each, then the next), with the bits of coefficient_bits.
//
// Positions of blocks are numbered by (image, block row, block column). Eight chunks of positions
// that follow each other (a chunk is one block, or four of 4 x 4) of one channel are a unit, which
// has its own ranges; units are numbered by (positions, channel), and 32 that follow each other are
// the lanes of a tile. So neither the order of memory nor the count of channels shows in the codes.
// Positions that the last units lack repeat the last one, lanes that the last tile lacks repeat the
// last unit, and chunks that no lane of a tile has are skipped.
//
//   headers  [tile][lane]          64 bits, see frequency_codec_math.h
//   codes    [tile][chunk]         chunk_bits for every lane: as many words as they fill, [word]
//                                  [lane], then 16 bits [lane], then 8 bits [lane] as they remain
//
// A lane's bits are one little-endian number, in which code follows code, the first one lowest.
//
// Code i of chunk c of unit u has the random offset i of call 8 u + c of its key's DitherDraws: see
// chunk_offsets.
//
// A unit that holds a NaN, an infinity or a number whose coefficients exceed 2^120 decodes to NaN;
// its codes are those of zeros.
// Bands that are zero in a whole unit, and coefficients without bits, decode to zero.
namespace triaccel::kernels {

/// Strides of rows and columns stay below it, in elements.
inline constexpr std::int64_t kMaxBlockStride = std::int64_t{1} << 29;

/// How a map is coded. Decode with the same; only strides and type may differ.
struct FrequencyCoding {
  BlockMap map = {};  // fewer than 2^31 units and positions
  FloatType type = FloatType::F32;
  int block = 8;
  CoefficientBits bits = {};  // coefficient_bits(block, ...)
  Rounding rounding = Rounding::Dither;
  DitherKey key = {};
};

/// encode_frequency writes frequency_layout(map, block, bits).bytes() to `codes`, which start at a
/// multiple of 8 bytes, and adds to *not_finite (null: not wanted) the units that decode to NaN.
/// `values` and `codes` are moved once each: with F32 and two bits per element 4.4 bytes per
/// element. decode_frequency writes what `map` makes of the elements; its gate has 1/8 byte per
/// element more to read, its channels are the map's, and the map then begins where memory does.
/// Decoded F16 saturates at its largest number.
namespace cpu {
void encode_frequency(const FrequencyCoding& coding, const void* values, std::uint8_t* codes,
                      std::int32_t* not_finite);
void decode_frequency(const FrequencyCoding& coding, const std::uint8_t* codes, void* values,
                      const CodecMap& map = {});

/// Statistics of `values` in blocks of so many elements per side: orthonormal coefficients, and the
/// ranges that headers hold. Block 0: without a transform, in groups of group_codec.h that follow
/// by image, channel, row and column. Weights are left at 1; what would decode to NaN does not
/// count.
TransformStatistics transform_statistics(const BlockMap& map, FloatType type, const void* values,
                                         int block);
}  // namespace cpu
namespace cuda {
void encode_frequency(const FrequencyCoding& coding, const void* values, std::uint8_t* codes,
                      std::int32_t* not_finite, cudaStream_t stream);
void decode_frequency(const FrequencyCoding& coding, const std::uint8_t* codes, void* values,
                      const CodecMap& map, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
