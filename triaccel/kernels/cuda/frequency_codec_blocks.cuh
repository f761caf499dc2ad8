#pragma once

#include "triaccel/kernels/cuda/frequency_codec.cuh"

// Blocks between memory and registers: by rows of a block where they are dense and aligned (NCHW),
// a vector for each lane; else element by element, which neighbouring lanes do to neighbouring
// channels where those are dense (NHWC).
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

template <int words>
__device__ __forceinline__ void store_row(char* to, const RowWords<words>& row) {
  if constexpr (words == 2) {
    __stwb(reinterpret_cast<uint2*>(to), make_uint2(row.at[0], row.at[1]));
  } else {
#pragma unroll
    for (int i = 0; i < words; i += 4)
      __stwb(reinterpret_cast<uint4*>(to + 4 * i),
             make_uint4(row.at[i], row.at[i + 1], row.at[i + 2], row.at[i + 3]));
  }
}

/// Bytes from a block's first element to a row, and elements from there to a column. Where the map
/// does not have the whole block, its last row and column are repeated.
template <bool whole>
struct BlockSteps {
  std::uint32_t row_stride, column_stride;
  std::int32_t last_row, last_column;
  __device__ std::int64_t row(int r) const {
    const int held = whole ? r : min(r, last_row);
    return static_cast<std::int64_t>(std::uint64_t{row_stride} * static_cast<unsigned>(held));
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
    if (geometry.whole_rows && place.columns == block) {
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
  if (geometry.type == FloatType::Bf16) {
#pragma unroll
    for (float& value : x) value = bf16_to_float(static_cast<std::uint16_t>(bits_of_float(value)));
  } else if (geometry.type == FloatType::F16) {
#pragma unroll
    for (float& value : x) value = f16_to_float(static_cast<std::uint16_t>(bits_of_float(value)));
  }
}

/// body(steps) for a block, with steps of the whole block where the map has it.
template <int block, typename Body>
__device__ __forceinline__ void with_steps(const BlockGeometry& geometry, const LaneBlock& place,
                                           Body body) {
  const std::int32_t last_row = place.rows - 1, last_column = place.columns - 1;
  if (last_row == block - 1 && last_column == block - 1)
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

template <int block, int first, bool halves, typename Steps>
__device__ __forceinline__ void store_rows(char* to, const Steps& steps,
                                           const ChunkFloats<block>& x) {
#pragma unroll
  for (int r = 0; r < block; ++r) {
    if (!steps.has(r, 0)) continue;
    RowWords<halves ? block / 2 : block> row;
#pragma unroll
    for (int c = 0; c < block; c += halves ? 2 : 1) {
      const std::uint32_t low = bits_of_float(x[first + r * block + c]);
      if constexpr (halves)
        row.at[c / 2] = low | bits_of_float(x[first + r * block + c + 1]) << 16;
      else
        row.at[c] = low;
    }
    store_row(to + steps.row(r), row);
  }
}

template <int block, int first>
__device__ __forceinline__ void store_block(const BlockGeometry& geometry, char* values,
                                            const LaneBlock& place, const ChunkFloats<block>& x) {
  char* to = values + place.offset;
  const bool wide = geometry.type == FloatType::F32;
  with_steps<block>(geometry, place, [&](const auto& steps) {
    if constexpr (block != 7) {
      if (geometry.whole_rows && steps.has(0, block - 1)) {
        if (wide) return store_rows<block, first, false>(to, steps, x);
        return store_rows<block, first, true>(to, steps, x);
      }
    }
    if (wide)
      store_elements<block, first, std::uint32_t>(to, steps, x);
    else
      store_elements<block, first, std::uint16_t>(to, steps, x);
  });
}

/// Rounds and stores what exists of a chunk.
template <int block>
__device__ __forceinline__ void store_chunk(const BlockGeometry& geometry, char* values,
                                            std::int32_t unit, std::int32_t chunk,
                                            ChunkFloats<block>& x) {
  constexpr int blocks = blocks_of_chunk(block);
  const auto round = [&]<typename Stored>(Stored) {
#pragma unroll
    for (float& value : x) value = float_from_bits(Stored::word(storable<Stored>(value)));
  };
  if (geometry.type == FloatType::Bf16) round(StoredAs<FloatType::Bf16>{});
  if (geometry.type == FloatType::F16) round(StoredAs<FloatType::F16>{});
  for_constants<blocks>([&](auto number) {
    const LaneBlock place = locate_block<block>(geometry, unit, chunk * blocks + number);
    if (place.exists) store_block<block, number * block * block>(geometry, values, place, x);
  });
}

}  // namespace triaccel::kernels::cuda
