#pragma once

#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec.cuh"

// Blocks between memory and registers, element by element, which neighbouring lanes do to
// neighbouring channels where those are dense (NHWC).
namespace triaccel::kernels::cuda {

/// Eight or four elements of one row. 16-bit numbers stay two to a word.
template <int words>
struct RowWords {
  std::uint32_t at[words];
};

template <int words>
__device__ __forceinline__ RowWords<words> load_row(const char* from) {
  RowWords<words> row;
  if constexpr (words == 2) {
    const uint2 raw = *reinterpret_cast<const uint2*>(from);
    row.at[0] = raw.x, row.at[1] = raw.y;
  } else {
#pragma unroll
    for (int i = 0; i < words; i += 4) {
      const uint4 raw = *reinterpret_cast<const uint4*>(from + 4 * i);
      row.at[i] = raw.x, row.at[i + 1] = raw.y, row.at[i + 2] = raw.z, row.at[i + 3] = raw.w;
    }
  }
  return row;
}

/// Bytes from a block's first element to a row, and elements from there to a column. Where the map
/// does not have the whole block, its last row and column are repeated.
template <bool whole>
struct BlockSteps {
  std::uint32_t row_stride, column_stride;
  std::int32_t last_row, last_column;
  __device__ std::int64_t row(int r) const {
    return product(whole ? r : min(r, last_row), row_stride);
  }
  __device__ std::uint32_t column(int c) const {
    return column_stride * static_cast<unsigned>(whole ? c : min(c, last_column));
  }
  __device__ bool has(int r, int c) const { return whole || (r <= last_row && c <= last_column); }
};

/// Element by element, as Word: the bits of float, or of 16-bit numbers, which stay bits.
template <int block, int first, typename Word>
__device__ __forceinline__ void load_elements(const char* from, const BlockSteps<false>& steps,
                                              ChunkFloats<block>& x) {
  std::uint32_t columns[block];
#pragma unroll
  for (int c = 0; c < block; ++c) columns[c] = steps.column(c);
#pragma unroll
  for (int r = 0; r < block; ++r) {
    const auto* row = reinterpret_cast<const Word*>(from + steps.row(r));
#pragma unroll
    for (int c = 0; c < block; ++c) x[first + r * block + c] = float_from_bits(row[columns[c]]);
  }
}

/// Row by row, as words of 32 bits; `halves` of them where elements have 16 bits. Blocks of 7 have
/// no such rows.
template <int block, int first, bool halves>
__device__ __forceinline__ void load_rows(const char* from, const BlockSteps<false>& steps,
                                          ChunkFloats<block>& x) {
#pragma unroll
  for (int r = 0; r < block; ++r) {
    const auto row = load_row < halves ? block / 2 : block > (from + steps.row(r));
#pragma unroll
    for (int c = 0; c < block; ++c)
      x[first + r * block + c] =
          float_from_bits(halves ? row.at[c / 2] >> (c % 2 * 16) & 0xffffu : row.at[c]);
  }
}

/// A block's elements; 16-bit numbers as bits.
template <int block, int first>
__device__ __forceinline__ void load_block(const BlockGeometry& geometry, const char* values,
                                           const LaneBlock& place, ChunkFloats<block>& x) {
  const char* from = values + place.offset;
  const bool wide = geometry.type == FloatType::F32;
  const BlockSteps<false> steps = {geometry.row_stride, geometry.column_stride, place.rows - 1,
                                   place.columns - 1};
  if constexpr (block != 7) {
    if (geometry.whole_rows && place.columns >= block) {
      if (wide) return load_rows<block, first, false>(from, steps, x);
      return load_rows<block, first, true>(from, steps, x);
    }
  }
  if (wide)
    load_elements<block, first, std::uint32_t>(from, steps, x);
  else
    load_elements<block, first, std::uint16_t>(from, steps, x);
}

/// A chunk's elements as floats.
template <int block>
__device__ __forceinline__ void load_chunk(const BlockGeometry& geometry, const char* values,
                                           std::int32_t unit, std::int32_t chunk,
                                           ChunkFloats<block>& x) {
  constexpr int blocks = blocks_of_chunk(block);
  for_constants<blocks>([&](auto number) {
    load_block<block, number * block * block>(
        geometry, values, locate_block<block>(geometry, unit, chunk * blocks + number), x);
  });
  widen_halves<block>(geometry.type, x);
}

/// body(steps) for a block, with steps of the whole block where the map has it.
template <int block, typename Body>
__device__ __forceinline__ void with_steps(const BlockGeometry& geometry, const LaneBlock& place,
                                           Body body) {
  const std::int32_t last_row = place.rows - 1, last_column = place.columns - 1;
  if (place.is_whole<block>())
    body(BlockSteps<true>{geometry.row_stride, geometry.column_stride, last_row, last_column});
  else
    body(BlockSteps<false>{geometry.row_stride, geometry.column_stride, last_row, last_column});
}

template <int block, int first, typename Word, typename Steps>
__device__ __forceinline__ void store_elements(char* to, const Steps& steps,
                                               const ChunkFloats<block>& x) {
  std::uint32_t columns[block];
#pragma unroll
  for (int c = 0; c < block; ++c) columns[c] = steps.column(c);
#pragma unroll
  for (int r = 0; r < block; ++r) {
    auto* row = reinterpret_cast<Word*>(to + steps.row(r));
#pragma unroll
    for (int c = 0; c < block; ++c)
      if (steps.has(r, c))
        row[columns[c]] = static_cast<Word>(bits_of_float(x[first + r * block + c]));
  }
}

/// Rounds a chunk's elements to halves, whose bits then stand lowest; what stands above them does
/// not count.
template <int block, typename Stored>
__device__ __forceinline__ void round_chunk(Stored, ChunkFloats<block>& x) {
  constexpr int count = codes_of_chunk(block);
#pragma unroll
  for (int i = 0; i + 1 < count; i += 2) {
    const std::uint32_t pair =
        rounded_pair(Stored{}, storable<Stored>(x[i]), storable<Stored>(x[i + 1]));
    x[i] = float_from_bits(pair);
    x[i + 1] = float_from_bits(pair >> 16);
  }
  if constexpr (count % 2 == 1)
    x[count - 1] = float_from_bits(Stored::word(storable<Stored>(x[count - 1])));
}

/// Rounds a chunk's elements to halves and swaps them with the neighbouring lane's: of every two
/// elements x[i] and x[i + 1] the even lane then has the first of both channels in x[i], the odd
/// lane the second. All lanes come here together.
template <int block, typename Stored>
__device__ __forceinline__ void pair_channels(Stored, ChunkFloats<block>& x) {
  const std::uint32_t halves = threadIdx.x % 2 == 0 ? 0x5410 : 0x3276;
#pragma unroll
  for (int i = 0; i < codes_of_chunk(block); i += 2) {
    const std::uint32_t own =
        rounded_pair(Stored{}, storable<Stored>(x[i]), storable<Stored>(x[i + 1]));
    const std::uint32_t other = __shfl_xor_sync(0xffffffffu, own, 1);
    x[i] = float_from_bits(__byte_perm(own, other, halves));
  }
}

/// What pair_channels left of a block; `to` is the even lane's.
template <int block, int first, typename Steps>
__device__ __forceinline__ void store_pairs(char* to, const Steps& steps,
                                            const ChunkFloats<block>& x) {
  const int odd = static_cast<int>(threadIdx.x % 2);
  std::uint32_t columns[block / 2];
#pragma unroll
  for (int c = 0; c < block; c += 2) columns[c / 2] = steps.column(c + odd);
#pragma unroll
  for (int r = 0; r < block; ++r) {
    auto* row = reinterpret_cast<std::uint16_t*>(to + steps.row(r));
#pragma unroll
    for (int c = 0; c < block; c += 2)
      if (steps.has(r, c + odd))
        *reinterpret_cast<std::uint32_t*>(row + columns[c / 2]) =
            bits_of_float(x[first + r * block + c]);
  }
}

/// Rounds and stores what exists of a chunk, element by element. All lanes of a warp come here.
template <int block>
__device__ __forceinline__ void store_chunk(const BlockGeometry& geometry, char* values,
                                            std::int32_t unit, std::int32_t chunk,
                                            ChunkFloats<block>& x) {
  constexpr int blocks = blocks_of_chunk(block);
  const bool pairs = block != 7 && geometry.channel_pairs;
  const auto round = [&](auto stored) {
    if constexpr (block != 7) {
      if (pairs) return pair_channels<block>(stored, x);
    }
    round_chunk<block>(stored, x);
  };
  if (geometry.type == FloatType::Bf16) round(StoredAs<FloatType::Bf16>{});
  if (geometry.type == FloatType::F16) round(StoredAs<FloatType::F16>{});
  for_constants<blocks>([&](auto number) {
    const LaneBlock place = locate_block<block>(geometry, unit, chunk * blocks + number);
    if (!place.exists) return;
    with_steps<block>(geometry, place, [&](const auto& steps) {
      constexpr int first = number * block * block;
      if constexpr (block != 7) {
        if (pairs)
          return store_pairs<block, first>(values + place.offset - threadIdx.x % 2 * 2, steps, x);
      }
      if (geometry.type == FloatType::F32)
        store_elements<block, first, std::uint32_t>(values + place.offset, steps, x);
      else
        store_elements<block, first, std::uint16_t>(values + place.offset, steps, x);
    });
  });
}

}  // namespace triaccel::kernels::cuda
