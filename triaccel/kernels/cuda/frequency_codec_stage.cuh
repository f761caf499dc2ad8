#pragma once

#include "triaccel/kernels/cuda/frequency_codec.cuh"
#include "triaccel/kernels/cuda/stored_quad.cuh"

// Blocks from registers to maps whose columns are dense (NCHW). A lane's blocks follow each other
// in memory, those of neighbouring lanes lie a channel apart: written from registers, a line would
// arrive in pieces of a block's row, from eight warps. So a tile passes through shared memory, as
// many of its blocks' rows at a time as fit, and is written by threads that follow the map's rows:
// every byte once, by vectors that neighbours join to lines.
namespace triaccel::kernels::cuda {

/// What of a tile is staged at a time: for every lane `kRows` rows of its blocks, side by side.
template <int block, typename Word>
struct TileStage {
  static constexpr int kRows = sizeof(Word) == 2 ? block : block == 4 ? 2 : 4;
  static constexpr int kRowBytes = kUnitChunks * blocks_of_chunk(block) * block * sizeof(Word);
  // Neighbouring lanes begin in other banks, whatever the width of their accesses.
  static constexpr int kLaneBytes = kRows * kRowBytes + (block == 7 ? 4 : 16);
  static constexpr int kBytes = kTileUnits * kLaneBytes;
};

template <int block>
inline constexpr int kStageBytes =
    TileStage<block, std::uint32_t>::kBytes > TileStage<block, std::uint16_t>::kBytes
        ? TileStage<block, std::uint32_t>::kBytes
        : TileStage<block, std::uint16_t>::kBytes;

/// `bytes` of 16, 8, 4 or 2 in one access.
template <int bytes>
struct Piece;
template <>
struct Piece<16> {
  using Type = uint4;
};
template <>
struct Piece<8> {
  using Type = uint2;
};
template <>
struct Piece<4> {
  using Type = std::uint32_t;
};
template <>
struct Piece<2> {
  using Type = std::uint16_t;
};

/// A row of a block, rounded, to shared memory.
template <int block, typename Stored>
__device__ __forceinline__ void stage_row(const float* x, char* to) {
  if constexpr (block == 7) {
#pragma unroll
    for (int c = 0; c < block; ++c)
      reinterpret_cast<typename Stored::Word*>(to)[c] = Stored::word(storable<Stored>(x[c]));
  } else if constexpr (sizeof(typename Stored::Word) == 4) {
#pragma unroll
    for (int c = 0; c < block; c += 4)
      reinterpret_cast<float4*>(to)[c / 4] = make_float4(x[c], x[c + 1], x[c + 2], x[c + 3]);
  } else {
    const auto pair = [&](int i) {
      return rounded_pair(Stored{}, storable<Stored>(x[i]), storable<Stored>(x[i + 1]));
    };
    if constexpr (block == 8)
      *reinterpret_cast<uint4*>(to) = make_uint4(pair(0), pair(2), pair(4), pair(6));
    else
      *reinterpret_cast<uint2*>(to) = make_uint2(pair(0), pair(2));
  }
}

/// Rows from `first` on of a tile's blocks, from shared memory to the map. A thread takes the same
/// columns in every row, its neighbours those beside them.
template <int block, typename Word, int bytes>
__device__ __forceinline__ void write_rows(const BlockGeometry& geometry, const char* stage,
                                           std::int32_t tile, int first, int rows, char* values) {
  using Stage = TileStage<block, Word>;
  using Type = typename Piece<bytes>::Type;
  constexpr int lane_pieces = Stage::kRowBytes / bytes, elements = bytes / sizeof(Word);
  const int thread = static_cast<int>(threadIdx.y * kTileUnits + threadIdx.x);
#pragma unroll 1
  for (int number = thread; number < kTileUnits * lane_pieces; number += kTileThreads) {
    const int lane = number / lane_pieces, piece = number % lane_pieces;
    const int column = piece * elements % block;
    const LaneBlock place =
        locate_block<block>(geometry, tile * kTileUnits + lane, piece * elements / block);
    if (!place.exists || column >= place.columns) continue;
    const char* from = stage + lane * Stage::kLaneBytes + piece * bytes;
    char* to = values + place.offset + column * static_cast<int>(sizeof(Word));
#pragma unroll
    for (int r = 0; r < Stage::kRows; ++r)
      if (r < rows && first + r < place.rows)
        __stwb(reinterpret_cast<Type*>(to + std::int64_t{geometry.row_stride} *
                                                static_cast<unsigned>(first + r)),
               *reinterpret_cast<const Type*>(from + r * Stage::kRowBytes));
  }
}

/// Rounds and stores a tile. All threads of the block come here; those of chunks that the tile does
/// not have bring no values. `stage` is free once all have arrived.
template <int block, typename Stored>
__device__ __forceinline__ void store_staged(Stored, const BlockGeometry& geometry, char* values,
                                             std::int32_t tile, bool has_chunk,
                                             const ChunkFloats<block>& x, char* stage) {
  using Word = std::conditional_t<sizeof(typename Stored::Word) == 4, std::uint32_t, std::uint16_t>;
  using Stage = TileStage<block, Word>;
  constexpr int blocks = blocks_of_chunk(block), passes = (block + Stage::kRows - 1) / Stage::kRows;
  char* own = stage + threadIdx.x * Stage::kLaneBytes +
              threadIdx.y * static_cast<unsigned>(blocks * block * sizeof(Word));
  for_constants<passes>([&](auto pass) {
    constexpr int first = pass * Stage::kRows, left = block - first;
    constexpr int rows = left < Stage::kRows ? left : Stage::kRows;
    __syncthreads();
    if (has_chunk)
      for_constants<rows * blocks>([&](auto i) {
        constexpr int row = i / blocks, number = i % blocks;
        stage_row<block, Stored>(
            &x[(number * block + first + row) * block],
            own + row * Stage::kRowBytes + number * block * static_cast<int>(sizeof(Word)));
      });
    __syncthreads();
    const auto write = [&](auto bytes) {
      if constexpr (bytes >= sizeof(Word) && block * sizeof(Word) % bytes == 0)
        write_rows<block, Word, bytes>(geometry, stage, tile, first, rows, values);
    };
    if (geometry.piece == 16)
      write(std::integral_constant<int, 16>{});
    else if (geometry.piece == 8)
      write(std::integral_constant<int, 8>{});
    else if (geometry.piece == 4)
      write(std::integral_constant<int, 4>{});
    else
      write(std::integral_constant<int, 2>{});
  });
}

}  // namespace triaccel::kernels::cuda
