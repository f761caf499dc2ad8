#pragma once

#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec.cuh"

// Blocks of halves between registers and maps where the 32 channels of a tile stand side by side
// (NHWC). A lane has one channel, but moves vectors of eight: they change hands in shared memory
// that is the warp's own. An eighth of the accesses, and no address to work out for each element.
namespace triaccel::kernels::cuda {

/// Elements [element][lane]; or two of a row in a word, [pair][lane].
template <int block>
union ChannelStage {
  static constexpr int kRowPairs = (block + 1) / 2;
  static constexpr int kPairs = kRowPairs * block * blocks_of_chunk(block);
  alignas(16) std::uint16_t elements[codes_of_chunk(block)][kTileUnits];
  std::uint32_t pairs[kPairs][kTileUnits];
};

/// Vectors of a pixel, of which a lane moves one.
inline constexpr int kPixelParts = kTileUnits / 8;

/// Where a lane's vectors lie: its part of the pixels of one block, from the block's first one on.
template <int block>
struct LaneVectors {
  std::int32_t own, pixel, part;  // block of the chunk, pixel of a move, part of the pixel
  LaneBlock place;
  std::int64_t offset;  // bytes

  /// A move takes eight pixels: of one block, or of each of four two.
  __device__ LaneVectors(const BlockGeometry& geometry, std::int32_t unit, std::int32_t chunk) {
    constexpr int blocks = blocks_of_chunk(block);
    const auto lane = static_cast<std::int32_t>(threadIdx.x);
    own = blocks == 1 ? 0 : lane / 8;
    pixel = lane / kPixelParts % (8 / blocks);
    part = lane % kPixelParts;
    place = locate_block<block>(geometry, unit, chunk * blocks + own);
    offset = place.offset + (part * 8 - lane) * 2;
  }
};

/// A chunk's elements as floats. All lanes of a warp come here.
template <int block>
__device__ __forceinline__ void load_channels(const BlockGeometry& geometry, const char* values,
                                              std::int32_t unit, std::int32_t chunk,
                                              ChannelStage<block>& stage, ChunkFloats<block>& x) {
  constexpr bool single = blocks_of_chunk(block) == 1;
  constexpr int moves = single ? block : 8;  // of one row, or of half of one
  const LaneVectors<block> own(geometry, unit, chunk);
  const LaneBlock& place = own.place;
  const auto row_of = [&](int move) { return single ? move : move / 2; };
  const auto column_of = [&](int move) { return single ? own.pixel : move % 2 * 2 + own.pixel; };
  if (!single || own.pixel < block) {  // a row of seven leaves lanes over
    uint4 fetched[moves];
#pragma unroll
    for (int i = 0; i < moves; ++i)  // where the map ends, its last row and column are repeated
      fetched[i] = *reinterpret_cast<const uint4*>(
          values + own.offset + product(min(row_of(i), place.rows - 1), geometry.row_stride) +
          product(min(column_of(i), place.columns - 1), geometry.column_bytes));
#pragma unroll
    for (int i = 0; i < moves; ++i)
      *reinterpret_cast<uint4*>(
          &stage.elements[(own.own * block + row_of(i)) * block + column_of(i)][own.part * 8]) =
          fetched[i];
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < codes_of_chunk(block); ++i)
    x[i] = float_from_bits(stage.elements[i][threadIdx.x]);
  widen_halves<block>(geometry.type, x);
}

/// Rounds and stores what exists of a chunk. All lanes of a warp come here.
template <int block, typename Stored>
__device__ __forceinline__ void store_channels(Stored, const BlockGeometry& geometry, char* values,
                                               std::int32_t unit, std::int32_t chunk,
                                               const ChunkFloats<block>& x,
                                               ChannelStage<block>& stage) {
  using Stage = ChannelStage<block>;
  __syncwarp();  // until here the stage may have been something else
  for_constants<Stage::kPairs>([&](auto pair) {
    constexpr int column = pair % Stage::kRowPairs * 2;
    constexpr int first = pair / Stage::kRowPairs * block + column;
    constexpr int second = column + 1 < block ? first + 1 : first;
    stage.pairs[pair][threadIdx.x] =
        rounded_pair(Stored{}, storable<Stored>(x[first]), storable<Stored>(x[second]));
  });
  __syncwarp();
  // A move takes eight pairs: two rows, or one of each of four blocks.
  constexpr int moves = 4, move_rows = blocks_of_chunk(block) == 1 ? 2 : 1;
  const LaneVectors<block> own(geometry, unit, chunk);
  const int first_row = own.pixel / Stage::kRowPairs, pair = own.pixel % Stage::kRowPairs;
  const int rows = own.place.exists ? min(block, own.place.rows) : 0;
  const int columns = min(block, own.place.columns) - 2 * pair;
  char* to = values + own.offset + product(first_row, geometry.row_stride) +
             product(2 * pair, geometry.column_bytes);
#pragma unroll
  for (int i = 0; i < moves; ++i) {
    const int row = first_row + i * move_rows;
    if (row < rows) {
      const auto* words = reinterpret_cast<const uint4*>(
          &stage.pairs[(own.own * block + row) * Stage::kRowPairs + pair][own.part * 8]);
      const uint4 a = words[0], b = words[1];
      const auto halves = [&](std::uint32_t which) {
        return make_uint4(__byte_perm(a.x, a.y, which), __byte_perm(a.z, a.w, which),
                          __byte_perm(b.x, b.y, which), __byte_perm(b.z, b.w, which));
      };
      if (columns > 0) *reinterpret_cast<uint4*>(to) = halves(0x5410);
      if (columns > 1) *reinterpret_cast<uint4*>(to + geometry.column_bytes) = halves(0x7632);
    }
    to += move_rows * std::int64_t{geometry.row_stride};
  }
}

}  // namespace triaccel::kernels::cuda
