#pragma once

#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/kernels/common/fast_divide.cuh"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/compression/block_transform.h"
#include "triaccel/kernels/compression/frequency/frequency_code_table.h"
#include "triaccel/kernels/compression/frequency/frequency_codec.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"

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

/// Number in its chunk and band of the coefficient that is encoded as number `code`.
template <int block, int code>
struct CodedCoefficient {
  static constexpr CodedPlace coded = coded_place(block, code);
  static constexpr CoefficientPlace at = coefficient_at(block, coded.place);
  static constexpr int band = band_of(block, at.row, at.column);
  static constexpr int number = (coded.block * block + at.row) * block + at.column;
};

template <int block>
using ChunkFloats = float[codes_of_chunk(block)];

/// How elements move between memory and registers.
enum class Access : std::uint8_t {
  Elements,  // one by one: frequency_codec_blocks.cuh
  Channels,  // by vectors of channels: frequency_codec_channels.cuh
  Rows,      // by vectors of columns: frequency_codec_stage.cuh
};

/// A map and its layout as kernels read them; strides in bytes, that of columns in elements.
struct BlockGeometry {
  FastDivide channels, block_rows, block_columns;
  std::int32_t units, positions, rows, columns;
  std::int64_t image_stride, channel_stride;
  std::uint32_t row_stride, column_stride, element_bytes, column_bytes;
  FloatType type;
  bool whole_blocks;   // no block ends outside the map, no unit lacks positions
  bool whole_rows;     // the rows of whole blocks may be read by vectors
  bool channel_pairs;  // the halves of an even lane's channel and the next one's make a word
  Access access;
  // Where columns are dense: a unit's blocks by `run` never part at the end of a row of blocks. A
  // row of so many has run_pieces of `piece` bytes, a power of two that may be moved at once.
  std::int32_t run, piece;
  FastDivide run_pieces;
  std::int64_t header_bytes;
  std::int32_t chunk_bytes;
  std::int32_t full_tiles, last_chunks;
};

inline BlockGeometry geometry_of(const FrequencyCoding& coding, const FrequencyLayout& layout,
                                 const void* values) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const BlockMap& map = coding.map;
  ensure(layout.units < most && layout.positions < most && map.row_stride < kMaxBlockStride &&
             map.column_stride < kMaxBlockStride,
         "a map's units, positions and strides fit the kernels");
  const std::int64_t size = coding.type == FloatType::F32 ? 4 : 2, row = coding.block * size;
  const auto begin =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(values)) + map.offset * size;
  const std::int64_t steps =
      begin | map.image_stride * size | map.channel_stride * size | map.row_stride * size;
  const std::int64_t pixels =
      begin | map.image_stride * size | map.row_stride * size | map.column_stride * size;
  // Of the largest power of two that divides them all, at most a vector's.
  const auto dividing = [](std::int64_t bytes) {
    return static_cast<std::int32_t>((bytes | 16) & -(bytes | 16));
  };
  const std::int64_t unit_blocks = kUnitChunks * blocks_of_chunk(coding.block);
  const std::int64_t run = std::gcd(unit_blocks, layout.block_columns);
  const std::int32_t piece = dividing(steps | run * row | map.columns * size);
  const bool tile_channels = size == 2 && map.channel_stride == 1 &&
                             map.channels % kTileUnits == 0 && dividing(pixels) == 16;
  const Access access = map.column_stride == 1 && map.channel_stride != 1 ? Access::Rows
                        : tile_channels                                   ? Access::Channels
                                                                          : Access::Elements;
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
          .column_bytes = static_cast<std::uint32_t>(map.column_stride * size),
          .type = coding.type,
          .whole_blocks = map.rows % coding.block == 0 && map.columns % coding.block == 0 &&
                          layout.positions % unit_blocks == 0,
          .whole_rows = map.column_stride == 1 && row % 8 == 0 && dividing(steps) == 16,
          .channel_pairs = size == 2 && map.channel_stride == 1 && map.channels % 2 == 0 &&
                           dividing(pixels) >= 4,
          .access = access,
          .run = static_cast<std::int32_t>(run),
          .piece = piece,
          .run_pieces = FastDivide(run * row / piece),
          .header_bytes = layout.header_bytes(),
          .chunk_bytes = static_cast<std::int32_t>(layout.chunk_bytes()),
          .full_tiles = static_cast<std::int32_t>(layout.full_tiles),
          .last_chunks = layout.last_chunks};
}

/// Of numbers that are not negative: a multiplication, where nvcc would take the signs along.
__device__ inline std::int64_t product(std::int32_t a, std::uint32_t b) {
  return static_cast<std::int64_t>(std::uint64_t{static_cast<std::uint32_t>(a)} * b);
}
__device__ inline std::int64_t product(std::int32_t a, std::int32_t b) {
  return product(a, static_cast<std::uint32_t>(b));
}
__device__ inline std::int64_t product(std::int32_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint32_t>(a) * static_cast<std::uint64_t>(b));
}

__device__ inline std::int32_t chunks_of_tile(const BlockGeometry& geometry, std::int32_t tile) {
  return tile < geometry.full_tiles ? kUnitChunks : geometry.last_chunks;
}

/// Where a chunk's codes begin.
__device__ inline std::int64_t chunk_offset(const BlockGeometry& geometry, std::int32_t tile,
                                            std::int32_t chunk) {
  const std::int32_t full = min(tile, geometry.full_tiles);
  const std::int32_t before = full * kUnitChunks + (tile - full) * geometry.last_chunks + chunk;
  return geometry.header_bytes + product(before, geometry.chunk_bytes);
}

/// What random offsets follow from.
struct OffsetSource {
  DitherDraws draws;
  bool random;  // else all offsets are 1/2
};

/// Those of one lane's first sixteen codes; see chunk_offsets. `high` is that of the draws.
__device__ __forceinline__ OffsetWords first_offsets(const OffsetSource& source, std::uint64_t high,
                                                     std::int32_t unit, std::int32_t chunk) {
  if (!source.random) return half_offsets();
  const std::uint64_t call =
      static_cast<std::uint64_t>(unit) * kUnitChunks + static_cast<unsigned>(chunk);
  return offset_words(source.draws.words(call, high));
}

/// Where a lane's block begins, and what the map has from there on.
struct LaneBlock {
  std::int64_t offset;  // bytes
  std::int32_t image;
  std::int32_t number;  // of the block in its unit
  std::int32_t rows, columns;
  bool exists;  // else it stands in for one that the last units lack
  template <int block>
  __device__ bool is_whole() const {
    return rows >= block && columns >= block;
  }
};

/// Block `number` of a unit, counted through its chunks; the last one that is there in place of one
/// that the unit lacks.
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
  return {product(image.quotient, geometry.image_stride) +
              product(group.remainder, geometry.channel_stride) +
              product(row, geometry.row_stride) + product(column, geometry.column_bytes),
          image.quotient,
          number - (wanted - position),
          geometry.rows - row,
          geometry.columns - column,
          unit == real && wanted == position};
}

/// Elements of 16 bits, which stand lowest in x, as floats.
template <int block>
__device__ __forceinline__ void widen_halves(FloatType type, ChunkFloats<block>& x) {
  const auto half = [&](int i) { return static_cast<std::uint16_t>(bits_of_float(x[i])); };
  if (type == FloatType::Bf16)
    for_constants<codes_of_chunk(block)>([&](auto i) { x[i] = bf16_to_float(half(i)); });
  else if (type == FloatType::F16)
    for_constants<codes_of_chunk(block)>([&](auto i) { x[i] = f16_to_float(half(i)); });
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
