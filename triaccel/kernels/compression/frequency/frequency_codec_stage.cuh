#pragma once

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec.cuh"

// Blocks between registers and maps whose columns are dense (NCHW). A lane's blocks follow each
// other in memory, those of neighbouring lanes lie a channel apart: from and to registers, a line
// would move in pieces of a block's row, in eight warps. So a tile passes through shared memory, as
// many of its blocks' rows at a time as fit, and is moved by threads that follow the map's rows:
// every byte once, by vectors that neighbours join to lines.
namespace triaccel::kernels::cuda {

/// What of a tile is staged at a time: for every lane `kRows` rows of its blocks, side by side.
template <int block, typename Word>
struct TileStage {
  static constexpr int kRows = sizeof(Word) == 2 ? block : block == 4 ? 2 : 4;
  static constexpr int kPasses = divide_up(block, kRows);
  static constexpr int kRowBytes = kUnitChunks * blocks_of_chunk(block) * block * sizeof(Word);
  // An odd number of vectors: those of neighbouring lanes lie in other banks.
  static constexpr int kLaneBytes = kRows * kRowBytes | 16;
  static constexpr int kBytes = kTileUnits * kLaneBytes;
  static_assert(kRowBytes % 16 == 0);
};

template <int block>
inline constexpr int kStageBytes =
    TileStage<block, std::uint32_t>::kBytes > TileStage<block, std::uint16_t>::kBytes
        ? TileStage<block, std::uint32_t>::kBytes
        : TileStage<block, std::uint16_t>::kBytes;

/// Elements in memory, as bits.
template <typename Stored>
using WordOf = std::conditional_t<sizeof(typename Stored::Word) == 4, std::uint32_t, std::uint16_t>;

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

/// body(constant) with the width of the pieces that rows are moved in.
template <typename Word, typename Body>
__device__ __forceinline__ void with_piece(const BlockGeometry& geometry, Body body) {
  if (geometry.piece == 16)
    body(std::integral_constant<int, 16>{});
  else if (geometry.piece == 8)
    body(std::integral_constant<int, 8>{});
  else if (sizeof(Word) == 4 || geometry.piece == 4)
    body(std::integral_constant<int, 4>{});
  else if constexpr (sizeof(Word) == 2)
    body(std::integral_constant<int, 2>{});
}

/// What one thread moves of a stage, and where it lies in the map: the same columns in `rows` of
/// the rows from `first` on.
struct StagedColumns {
  std::int32_t stage;   // bytes, of the first row
  std::int64_t offset;  // bytes, of row `first`
  std::int32_t rows;    // that the map has, 0 where it lacks the columns or the block
  bool exists;          // else they stand in for those of a lane that the last tile lacks
};

template <int block, typename Word, int bytes>
__device__ __forceinline__ StagedColumns locate_columns(const BlockGeometry& geometry,
                                                        std::int32_t tile, int number, int first) {
  using Stage = TileStage<block, Word>;
  constexpr int lane_pieces = Stage::kRowBytes / bytes, elements = bytes / sizeof(Word);
  const int lane = number / lane_pieces, piece = number % lane_pieces;
  const FastDivide::Result run = geometry.run_pieces(piece);
  const std::int32_t block_number = run.quotient * geometry.run;
  const std::int32_t unit = tile * kTileUnits + lane;
  const LaneBlock place = locate_block<block>(geometry, unit, block_number);
  const bool inside = place.number == block_number && run.remainder * elements < place.columns;
  return {lane * Stage::kLaneBytes + piece * bytes,
          place.offset + run.remainder * bytes + product(first, geometry.row_stride),
          inside ? place.rows - first : 0, unit < geometry.units};
}

/// body(number of the columns that a thread takes).
template <int block, typename Word, int bytes, typename Body>
__device__ __forceinline__ void for_each_columns(Body body) {
  constexpr int count = kTileUnits * TileStage<block, Word>::kRowBytes / bytes;
  const int thread = static_cast<int>(threadIdx.y * kTileUnits + threadIdx.x);
  if constexpr (count <= 2 * kTileThreads) {
#pragma unroll
    for (int number = 0; number < count; number += kTileThreads)
      if (count % kTileThreads == 0 || number + thread < count) body(number + thread);
  } else {
#pragma unroll 1
    for (int number = thread; number < count; number += kTileThreads) body(number);
  }
}

/// Rows from `first` on of a tile's blocks, from the map to shared memory.
template <int block, typename Word, int first>
__device__ __forceinline__ void fetch_rows(const BlockGeometry& geometry, const char* values,
                                           std::int32_t tile, char* stage) {
  using Stage = TileStage<block, Word>;
  constexpr int left = block - first, rows = left < Stage::kRows ? left : Stage::kRows;
  with_piece<Word>(geometry, [&](auto bytes) {
    using Type = typename Piece<bytes>::Type;
    for_each_columns<block, Word, bytes>([&](int number) {
      const StagedColumns at = locate_columns<block, Word, bytes>(geometry, tile, number, first);
      const char* from = values + at.offset;
      Type fetched[rows];
#pragma unroll
      for (int r = 0; r < rows; ++r, from += geometry.row_stride)
        if (r < at.rows) fetched[r] = *reinterpret_cast<const Type*>(from);
#pragma unroll
      for (int r = 0; r < rows; ++r)
        if (r < at.rows)
          *reinterpret_cast<Type*>(stage + at.stage + r * Stage::kRowBytes) = fetched[r];
    });
  });
}

/// Rows from `first` on of a tile's blocks, from shared memory to the map.
template <int block, typename Word, int first>
__device__ __forceinline__ void write_rows(const BlockGeometry& geometry, const char* stage,
                                           std::int32_t tile, char* values) {
  using Stage = TileStage<block, Word>;
  constexpr int left = block - first, rows = left < Stage::kRows ? left : Stage::kRows;
  with_piece<Word>(geometry, [&](auto bytes) {
    using Type = typename Piece<bytes>::Type;
    for_each_columns<block, Word, bytes>([&](int number) {
      const StagedColumns at = locate_columns<block, Word, bytes>(geometry, tile, number, first);
      if (!at.exists) return;
      char* to = values + at.offset;
#pragma unroll
      for (int r = 0; r < rows; ++r, to += geometry.row_stride)
        if (r < at.rows)
          __stwb(reinterpret_cast<Type*>(to),
                 *reinterpret_cast<const Type*>(stage + at.stage + r * Stage::kRowBytes));
    });
  });
}

/// Two halves of a word as floats.
__device__ inline float low_float(StoredAs<FloatType::Bf16>, std::uint32_t word) {
  return float_from_bits(word << 16);
}
__device__ inline float high_float(StoredAs<FloatType::Bf16>, std::uint32_t word) {
  return float_from_bits(word & 0xffff0000u);
}
__device__ inline float low_float(StoredAs<FloatType::F16>, std::uint32_t word) {
  return f16_to_float(static_cast<std::uint16_t>(word));
}
__device__ inline float high_float(StoredAs<FloatType::F16>, std::uint32_t word) {
  return f16_to_float(static_cast<std::uint16_t>(word >> 16));
}

/// A row of a block from shared memory, as floats. `from`: of block 0 of the unit. Rows of seven
/// halves begin inside a word where the block's number is `odd`.
template <int block, bool odd, typename Stored>
__device__ __forceinline__ void read_row(const char* from, int number, float* x) {
  using Word = WordOf<Stored>;
  const char* row = from + number * block * static_cast<int>(sizeof(Word));
  if constexpr (sizeof(Word) == 4) {
    constexpr int width = block == 7 ? 1 : 4;
#pragma unroll
    for (int c = 0; c < block; c += width) {
      if constexpr (width == 1) {
        x[c] = reinterpret_cast<const float*>(row)[c];
      } else {
        const float4 quad = reinterpret_cast<const float4*>(row)[c / 4];
        x[c] = quad.x, x[c + 1] = quad.y, x[c + 2] = quad.z, x[c + 3] = quad.w;
      }
    }
  } else {
    std::uint32_t words[4];
    if constexpr (block == 8) {
      const uint4 read = *reinterpret_cast<const uint4*>(row);
      words[0] = read.x, words[1] = read.y, words[2] = read.z, words[3] = read.w;
    } else if constexpr (block == 4) {
      const uint2 read = *reinterpret_cast<const uint2*>(row);
      words[0] = read.x, words[1] = read.y;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = reinterpret_cast<const std::uint32_t*>(row - (odd ? 2 : 0))[i];
    }
#pragma unroll
    for (int c = 0; c < block; ++c) {
      const int half = c + (odd ? 1 : 0);
      x[c] = half % 2 == 0 ? low_float(Stored{}, words[half / 2])
                           : high_float(Stored{}, words[half / 2]);
    }
  }
}

/// Repeats the last row and column that the map has of a block.
template <int block>
__device__ __forceinline__ void repeat_edges(const LaneBlock& place, float* x) {
#pragma unroll
  for (int r = 0; r < block; ++r)
#pragma unroll
    for (int c = 1; c < block; ++c)
      if (c >= place.columns) x[r * block + c] = x[r * block + c - 1];
#pragma unroll
  for (int r = 1; r < block; ++r)
#pragma unroll
    for (int c = 0; c < block; ++c)
      if (r >= place.rows) x[r * block + c] = x[(r - 1) * block + c];
}

/// A tile's elements as floats. All threads of the block come here.
template <int block, typename Stored>
__device__ __forceinline__ void load_staged(Stored, const BlockGeometry& geometry,
                                            const char* values, std::int32_t tile,
                                            std::int32_t chunk, char* stage,
                                            ChunkFloats<block>& x) {
  using Stage = TileStage<block, WordOf<Stored>>;
  constexpr int blocks = blocks_of_chunk(block);
  const std::int32_t unit = tile * kTileUnits + static_cast<std::int32_t>(threadIdx.x);
  LaneBlock places[blocks];
  for_constants<blocks>([&](auto i) {
    places[i] = {.number = chunk * blocks + i, .rows = block, .columns = block};
    if (!geometry.whole_blocks) places[i] = locate_block<block>(geometry, unit, chunk * blocks + i);
  });
  const char* own = stage + threadIdx.x * Stage::kLaneBytes;
  for_constants<Stage::kPasses>([&](auto pass) {
    constexpr int first = pass * Stage::kRows, left = block - first;
    constexpr int rows = left < Stage::kRows ? left : Stage::kRows;
    if (pass > 0) __syncthreads();
    fetch_rows<block, WordOf<Stored>, first>(geometry, values, tile, stage);
    __syncthreads();
    for_constants<blocks>([&](auto i) {
      const auto read = [&](auto odd) {
#pragma unroll
        for (int r = 0; r < rows; ++r)
          read_row<block, odd, Stored>(own + r * Stage::kRowBytes, places[i].number,
                                       &x[(i * block + first + r) * block]);
      };
      if (block == 7 && sizeof(WordOf<Stored>) == 2 && places[i].number % 2 == 1)
        read(std::true_type{});
      else
        read(std::false_type{});
    });
  });
  if (geometry.whole_blocks) return;
  for_constants<blocks>([&](auto i) {
    if (!places[i].template is_whole<block>())
      repeat_edges<block>(places[i], &x[i * block * block]);
  });
}

/// A row of a block, rounded, to shared memory; see read_row.
template <int block, bool odd, typename Stored>
__device__ __forceinline__ void stage_row(const float* x, char* to) {
  if constexpr (sizeof(typename Stored::Word) == 4) {
    if constexpr (block == 7) {
#pragma unroll
      for (int c = 0; c < block; ++c) reinterpret_cast<float*>(to)[c] = x[c];
    } else {
#pragma unroll
      for (int c = 0; c < block; c += 4)
        reinterpret_cast<float4*>(to)[c / 4] = make_float4(x[c], x[c + 1], x[c + 2], x[c + 3]);
    }
  } else {
    const auto pair = [&](int i) {
      return rounded_pair(Stored{}, storable<Stored>(x[i]), storable<Stored>(x[i + 1]));
    };
    if constexpr (block == 8) {
      *reinterpret_cast<uint4*>(to) = make_uint4(pair(0), pair(2), pair(4), pair(6));
    } else if constexpr (block == 4) {
      *reinterpret_cast<uint2*>(to) = make_uint2(pair(0), pair(2));
    } else {
      constexpr int single = odd ? 0 : 6, first = odd ? 1 : 0;
      reinterpret_cast<std::uint16_t*>(to)[single] = Stored::word(storable<Stored>(x[single]));
#pragma unroll
      for (int c = first; c < first + 6; c += 2)
        *reinterpret_cast<std::uint32_t*>(to + 2 * c) = pair(c);
    }
  }
}

/// Rounds and stores a tile. All threads of the block come here; those of chunks that the tile does
/// not have bring no values. `stage` is free once all have arrived.
template <int block, typename Stored>
__device__ __forceinline__ void store_staged(Stored, const BlockGeometry& geometry, char* values,
                                             std::int32_t tile, bool has_chunk,
                                             const ChunkFloats<block>& x, char* stage) {
  using Stage = TileStage<block, WordOf<Stored>>;
  constexpr int blocks = blocks_of_chunk(block), block_bytes = block * sizeof(WordOf<Stored>);
  char* own = stage + threadIdx.x * Stage::kLaneBytes + threadIdx.y * (blocks * block_bytes);
  for_constants<Stage::kPasses>([&](auto pass) {
    constexpr int first = pass * Stage::kRows, left = block - first;
    constexpr int rows = left < Stage::kRows ? left : Stage::kRows;
    const auto put = [&](auto odd) {
      for_constants<rows * blocks>([&](auto i) {
        constexpr int row = i / blocks, number = i % blocks;
        stage_row<block, odd, Stored>(&x[(number * block + first + row) * block],
                                      own + row * Stage::kRowBytes + number * block_bytes);
      });
    };
    __syncthreads();
    if (has_chunk) {
      if (block == 7 && sizeof(WordOf<Stored>) == 2 && threadIdx.y % 2 == 1)
        put(std::true_type{});
      else
        put(std::false_type{});
    }
    __syncthreads();
    write_rows<block, WordOf<Stored>, first>(geometry, stage, tile, values);
  });
}

}  // namespace triaccel::kernels::cuda
