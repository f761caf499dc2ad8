#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/kernels/block_transform.h"
#include "triaccel/kernels/cuda/fast_divide.cuh"
#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/frequency_code_table.h"
#include "triaccel/kernels/frequency_codec.h"
#include "triaccel/kernels/frequency_codec_math.h"

// A tile is a block of eight warps: lane = unit, warp = chunk. A thread holds the elements of its
// chunk in registers, so every index below is a constant.
namespace triaccel::kernels::cuda {

inline constexpr int kTileThreads = kTileUnits * kUnitChunks;

/// body(constant 0), ..., body(constant count - 1).
template <int count, typename Body>
__device__ __forceinline__ void for_constants(Body body) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (body(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, count>{});
}

/// Number in its chunk and band of the coefficient that is coded as number `code`.
template <int block, int code>
struct CodedCoefficient {
  static constexpr CodedPlace coded = coded_place(block, code);
  static constexpr CoefficientPlace at = coefficient_at(block, coded.place);
  static constexpr int band = band_of(block, at.row, at.column);
  static constexpr int number = (coded.block * block + at.row) * block + at.column;
};

template <int block>
using ChunkFloats = float[codes_of_chunk(block)];

/// A map and its layout as kernels read them; strides in bytes, that of columns in elements.
struct BlockGeometry {
  FastDivide channels, block_rows, block_columns;
  std::int32_t units, positions, rows, columns;
  std::int64_t image_stride, channel_stride;
  std::uint32_t row_stride, column_stride, element_bytes;
  FloatType type;
  bool whole_rows;     // the rows of whole blocks may be read by vectors
  std::int32_t piece;  // bytes that may be written at once where columns are dense: a power of two
  bool channel_pairs;  // the halves of an even lane's channel and the next one's make a word
  std::int64_t header_bytes, chunk_bytes;
  std::int32_t full_tiles, last_chunks;
};

inline BlockGeometry geometry_of(const FrequencyCoding& coding, const FrequencyLayout& layout,
                                 const void* values) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const BlockMap& map = coding.map;
  ensure(layout.units < most && layout.positions < most && map.row_stride < kMostBlockStride &&
             map.column_stride < kMostBlockStride,
         "a map's units, positions and strides fit the kernels");
  const std::int64_t size = coding.type == FloatType::F32 ? 4 : 2, row = coding.block * size;
  const auto begin =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(values)) + map.offset * size;
  const std::int64_t steps =
      begin | map.image_stride * size | map.channel_stride * size | map.row_stride * size;
  // Of the largest power of two that divides them all, at most a vector's.
  const auto dividing = [](std::int64_t bytes) {
    return static_cast<std::int32_t>((bytes | 16) & -(bytes | 16));
  };
  return {.channels = FastDivide(map.channels),
          .block_rows = FastDivide(layout.block_rows),
          .block_columns = FastDivide(layout.block_columns),
          .units = static_cast<std::int32_t>(layout.units),
          .positions = static_cast<std::int32_t>(layout.positions),
          .rows = static_cast<std::int32_t>(map.rows),
          .columns = static_cast<std::int32_t>(map.columns),
          .image_stride = map.image_stride * size,
          .channel_stride = map.channel_stride * size,
          .row_stride = static_cast<std::uint32_t>(map.row_stride * size),
          .column_stride = static_cast<std::uint32_t>(map.column_stride),
          .element_bytes = static_cast<std::uint32_t>(size),
          .type = coding.type,
          .whole_rows = map.column_stride == 1 && row % 8 == 0 && dividing(steps) == 16,
          .piece = dividing(steps | row | map.columns * size),
          .channel_pairs = size == 2 && map.channel_stride == 1 && map.channels % 2 == 0 &&
                           dividing(begin | map.image_stride * size | map.row_stride * size |
                                    map.column_stride * size) >= 4,
          .header_bytes = layout.header_bytes(),
          .chunk_bytes = layout.chunk_bytes(),
          .full_tiles = static_cast<std::int32_t>(layout.full_tiles),
          .last_chunks = layout.last_chunks};
}

__device__ inline std::int32_t chunks_of_tile(const BlockGeometry& geometry, std::int32_t tile) {
  return tile < geometry.full_tiles ? kUnitChunks : geometry.last_chunks;
}

/// Where a chunk's codes begin.
__device__ inline std::int64_t chunk_offset(const BlockGeometry& geometry, std::int32_t tile,
                                            std::int32_t chunk) {
  const std::int32_t full = min(tile, geometry.full_tiles);
  const std::int64_t chunks_before =
      std::int64_t{full} * kUnitChunks + std::int64_t{tile - full} * geometry.last_chunks + chunk;
  return geometry.header_bytes + chunks_before * geometry.chunk_bytes;
}

/// What random offsets follow from.
struct OffsetSource {
  DitherDraws draws;
  bool random;  // else all offsets are 1/2
};

/// The offsets of one lane's chunk.
class LaneOffsets {
 public:
  __device__ LaneOffsets(const OffsetSource& source, std::int32_t unit, std::int32_t chunk)
      : first_((static_cast<std::uint64_t>(unit) * kUnitChunks + static_cast<unsigned>(chunk)) *
               (kMostCodes / kOffsetsOfCall)),
        high_(source.draws.high()) {}

  /// Those of sixteen codes.
  __device__ OffsetWords words(const OffsetSource& source, int call) const {
    return offset_words(source.draws.words(first_ | static_cast<unsigned>(call), high_));
  }

 private:
  std::uint64_t first_, high_;
};

/// Where a lane's block begins, and what the map has of it.
struct LaneBlock {
  std::int64_t offset;  // bytes
  std::int32_t image;
  std::int32_t rows, columns;
  bool exists;  // else it stands in for one that the last units lack
};

/// Block `number` of a unit, counted through its chunks.
template <int block>
__device__ LaneBlock locate_block(const BlockGeometry& geometry, std::int32_t unit,
                                  std::int32_t number) {
  const std::int32_t real = min(unit, geometry.units - 1);
  const FastDivide::Result group = geometry.channels(real);  // remainder: the channel
  const std::int32_t wanted = group.quotient * (kUnitChunks * blocks_of_chunk(block)) + number;
  const std::int32_t position = min(wanted, geometry.positions - 1);
  const FastDivide::Result line = geometry.block_columns(position);
  const FastDivide::Result image = geometry.block_rows(line.quotient);
  const std::int32_t row = image.remainder * block, column = line.remainder * block;
  return {image.quotient * geometry.image_stride + group.remainder * geometry.channel_stride +
              std::int64_t{row} * geometry.row_stride +
              std::int64_t{column} * geometry.column_stride * geometry.element_bytes,
          image.quotient, min(block, geometry.rows - row), min(block, geometry.columns - column),
          unit == real && wanted == position};
}

template <int block, bool forward>
__device__ __forceinline__ void transform_chunk(ChunkFloats<block>& x) {
  const auto line = [&](int first, int stride) {
    float y[block];
#pragma unroll
    for (int i = 0; i < block; ++i) y[i] = x[first + i * stride];
    if constexpr (forward)
      Transform<block>::forward(y);
    else
      Transform<block>::back(y);
#pragma unroll
    for (int i = 0; i < block; ++i) x[first + i * stride] = y[i];
  };
  const auto scale = [&](auto number) {
    constexpr int place = number % (block * block);
    constexpr float factor = scale_at<block>(place / block, place % block);
    if constexpr (factor != 1.0f) x[number] *= factor;
  };
  if constexpr (!forward) for_constants<codes_of_chunk(block)>(scale);
#pragma unroll
  for (int first = 0; first < codes_of_chunk(block); first += block * block) {
#pragma unroll
    for (int row = 0; row < block; ++row) line(first + row * block, 1);
#pragma unroll
    for (int column = 0; column < block; ++column) line(first + column, block);
  }
  if constexpr (forward) for_constants<codes_of_chunk(block)>(scale);
}

}  // namespace triaccel::kernels::cuda
