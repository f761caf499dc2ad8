#pragma once

#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/conv/depthwise.h"
#include "triaccel/kernels/conv/depthwise_work.h"

namespace triaccel::kernels::cuda {

// The channels that one thread takes of a pixel, loaded and stored as one word. A kernel gets one
// of those below as its last argument.

struct Fp32Pack {
  using Word = float;
  static constexpr int kChannels = 1;
  __device__ void unpack(Word word, float* values) const { values[0] = word; }
  __device__ Word pack(const float* values) const { return values[0]; }
  __device__ float rounded(float value) const { return value; }
};

struct Fp32Pair {
  using Word = float2;
  static constexpr int kChannels = 2;
  __device__ void unpack(Word word, float* values) const {
    values[0] = word.x;
    values[1] = word.y;
  }
  __device__ Word pack(const float* values) const { return {values[0], values[1]}; }
  __device__ float rounded(float value) const { return value; }
};

template <typename Stored>
struct HalfPair {
  using Word = std::uint32_t;
  static constexpr int kChannels = 2;
  __device__ void unpack(Word word, float* values) const {
    values[0] = Stored::value(static_cast<std::uint16_t>(word));
    values[1] = Stored::value(static_cast<std::uint16_t>(word >> 16));
  }
  __device__ Word pack(const float* values) const {
    return rounded_pair(Stored{}, values[0], values[1]);
  }
  __device__ float rounded(float value) const { return Stored::value(Stored::word(value)); }
};

template <typename Stored>
struct HalfQuad {
  using Word = uint2;
  static constexpr int kChannels = 4;
  HalfPair<Stored> pair;
  __device__ void unpack(Word word, float* values) const {
    pair.unpack(word.x, values);
    pair.unpack(word.y, values + 2);
  }
  __device__ Word pack(const float* values) const {
    return {pair.pack(values), pair.pack(values + 2)};
  }
  __device__ float rounded(float value) const { return pair.rounded(value); }
};

/// Counts of 16-bit channels that wider packs do not divide; rare, so that one kernel decides
/// between the types as it runs.
struct HalfPack {
  using Word = std::uint16_t;
  static constexpr int kChannels = 1;
  bool is_f16;
  __device__ void unpack(Word word, float* values) const {
    values[0] = is_f16 ? f16_to_float(word) : bf16_to_float(word);
  }
  __device__ Word pack(const float* values) const {
    return is_f16 ? float_to_f16(values[0]) : float_to_bf16(values[0]);
  }
  __device__ float rounded(float value) const {
    float result;
    unpack(pack(&value), &result);
    return result;
  }
};

template <typename Pack>
inline constexpr int kLanes = lanes_of_words(sizeof(typename Pack::Word));

template <int value>
struct Constant {
  static constexpr int kValue = value;
};

/// Calls body(Constant<filter>, pack) for the shape's filters and maps.
template <typename Body>
void with_filter_and_pack(const DepthwiseShape& shape, Body body) {
  using Bf16 = StoredAs<FloatType::Bf16>;
  using F16 = StoredAs<FloatType::F16>;
  const bool is_f16 = shape.type == FloatType::F16, is_f32 = shape.type == FloatType::F32;
  const bool wide = channels_per_pack(shape) > 1;
  if (shape.filter == 3) {
    constexpr Constant<3> filter;
    if (is_f32) return wide ? body(filter, Fp32Pair{}) : body(filter, Fp32Pack{});
    if (!wide) return body(filter, HalfPack{is_f16});
    return is_f16 ? body(filter, HalfQuad<F16>{}) : body(filter, HalfQuad<Bf16>{});
  }
  ensure(shape.filter == 5, "a depthwise filter has an extent of 3 or 5");
  constexpr Constant<5> filter;
  if (is_f32) return body(filter, Fp32Pack{});
  if (!wide) return body(filter, HalfPack{is_f16});
  return is_f16 ? body(filter, HalfPair<F16>{}) : body(filter, HalfPair<Bf16>{});
}

/// One map, as many packs per pixel as the strips say.
struct MapSize {
  std::int32_t rows, columns;
};

/// Where the strip `index` begins, and how many of its rows lie in the map.
struct StripPlace {
  std::int32_t image, row, column, rows;
};

__device__ inline StripPlace locate_strip(const StripCut& cut, std::int32_t map_rows,
                                          std::uint32_t index) {
  const std::uint32_t above = index / static_cast<std::uint32_t>(cut.columns);
  const std::uint32_t image = above / static_cast<std::uint32_t>(cut.rows);
  const auto row =
      static_cast<std::int32_t>(above % static_cast<std::uint32_t>(cut.rows)) * cut.height;
  const auto column =
      static_cast<std::int32_t>(index % static_cast<std::uint32_t>(cut.columns)) * kStripColumns;
  return {static_cast<std::int32_t>(image), row, column, min(cut.height, map_rows - row)};
}

// Addresses by hand: left alone, the compiler keeps a pointer for every row and column of the
// unrolled loops, and spends more on adding to them than on the arithmetic of a small filter.

/// base + step * count, one instruction; the step in bytes.
template <typename Word>
__device__ Word* pixels_on(Word* base, std::uint32_t step, std::uint32_t count) {
  Word* result;
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(result) : "r"(step), "r"(count), "l"(base));
  return result;
}

template <typename Word>
__device__ Word* next_row(Word* row, std::int64_t step) {
  Word* result;
  asm("add.s64 %0, %1, %2;" : "=l"(result) : "l"(row), "l"(step));
  return result;
}

/// Reads `count` neighbouring columns of one map, for one pack of channels, row after row.
template <typename Word, int count>
struct ColumnReader {
  const Word* next;          // of the next row; may lie outside the map
  std::int64_t row_step;     // bytes
  std::uint32_t pixel_step;  // bytes
  std::int32_t row, rows;
  std::uint32_t inside;  // bit by column: lies in the map

  __device__ ColumnReader(const void* map, MapSize size, std::int32_t packs, std::int32_t image,
                          std::int32_t first_row, std::int32_t first_column, std::int32_t pack)
      : row_step(std::int64_t{size.columns} * packs * sizeof(Word)),
        pixel_step(static_cast<std::uint32_t>(packs * sizeof(Word))),
        row(first_row),
        rows(size.rows),
        inside(0) {
    const std::int64_t first_pixel =
        (std::int64_t{image} * size.rows + first_row) * size.columns + first_column;
    next = static_cast<const Word*>(map) + (first_pixel * packs + pack);
#pragma unroll
    for (int c = 0; c < count; ++c)
      if (first_column + c >= 0 && first_column + c < size.columns) inside |= 1u << c;
  }

  /// Zeros outside the map, and where the row is not `wanted`. False when all are.
  __device__ bool load_row(bool wanted, Word (&words)[count]) {
    const bool live = wanted && row >= 0 && row < rows;
    const std::uint32_t columns = live ? inside : 0;
#pragma unroll
    for (std::uint32_t c = 0; c < count; ++c)
      words[c] = (columns >> c & 1) != 0 ? __ldca(pixels_on(next, pixel_step, c)) : Word{};
    next = next_row(next, row_step);
    ++row;
    return live;
  }
};

/// The filters of one group of channels, rounded to the maps' type, for all threads of a block.
template <typename Pack, int filter>
struct GroupFilters {
  static constexpr int kTaps = filter * filter;
  static constexpr int kCount = kLanes<Pack> * Pack::kChannels * kTaps;
  float taps[kCount];  // [lane][channel of its pack][tap]

  /// To be called by the whole block. `turned`: by half a turn, as gradients need them.
  __device__ void load(const float* weight, std::int64_t channels, std::int32_t group, bool turned,
                       Pack pack) {
    const std::int64_t first = std::int64_t{group} * kCount, end = channels * kTaps;
    const int threads = static_cast<int>(blockDim.x * blockDim.y);
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < kCount; i += threads) {
      const int tap = i % kTaps;
      taps[turned ? i - tap + (kTaps - 1 - tap) : i] =
          first + i < end ? pack.rounded(weight[first + i]) : 0.0f;
    }
    __syncthreads();
  }

  /// Those of a lane's pack, into registers.
  __device__ void read(int lane, float (&to)[kTaps][Pack::kChannels]) const {
#pragma unroll
    for (int t = 0; t < kTaps; ++t)
#pragma unroll
      for (int v = 0; v < Pack::kChannels; ++v)
        to[t][v] = taps[(lane * Pack::kChannels + v) * kTaps + t];
  }
};

inline constexpr int kStripThreads = 128;  // of a block, where a thread takes one strip

inline MapSize size_of(std::int64_t rows, std::int64_t columns) {
  return {static_cast<std::int32_t>(rows), static_cast<std::int32_t>(columns)};
}

/// From one map to another through a filter per channel; a thread takes a strip of `to`.
struct StripJob {
  const void* from;
  const float* weight;
  void* to;
  MapSize from_size, to_size;
  std::int32_t padding_rows, padding_columns;
  std::int64_t channels;
  bool turned;  // every filter, by half a turn
  StripCut cut;
  std::int32_t cut_rows;  // that the strips lie on: rows of `to`, or pairs of them
};

/// Of the forward pass, or where `backward` from the output to the input.
inline StripJob strip_job(const DepthwiseShape& shape, const void* from, const float* weight,
                          void* to, bool backward, std::int64_t cut_rows,
                          std::int64_t cut_columns) {
  const MapSize input = size_of(shape.rows.input, shape.columns.input);
  const MapSize output = size_of(shape.rows.output, shape.columns.output);
  return {.from = from,
          .weight = weight,
          .to = to,
          .from_size = backward ? output : input,
          .to_size = backward ? input : output,
          .padding_rows = static_cast<std::int32_t>(shape.rows.padding),
          .padding_columns = static_cast<std::int32_t>(shape.columns.padding),
          .channels = shape.channels,
          .turned = false,
          .cut = cut_into_strips(shape, cut_rows, cut_columns, {.threads = kStripThreads}),
          .cut_rows = static_cast<std::int32_t>(cut_rows)};
}

/// What a thread works on.
struct ThreadStrip {
  std::uint32_t strip;
  std::int32_t lane, index;  // its pack, in the block and of the pixel
  bool exists;
};

/// Waits for the kernel before and loads the filters of the block's group; by the whole block.
template <typename Pack, int filter>
__device__ __forceinline__ ThreadStrip begin_strip(const StripJob& job,
                                                   GroupFilters<Pack, filter>& filters, bool turned,
                                                   Pack pack) {
  const auto groups = static_cast<std::uint32_t>(job.cut.groups);
  const auto group = static_cast<std::int32_t>(blockIdx.x % groups);
  wait_for_previous_kernel();
  filters.load(job.weight, job.channels, group, turned, pack);
  const std::uint32_t strip = blockIdx.x / groups * blockDim.y + threadIdx.y;
  const std::int32_t lane = threadIdx.x, index = group * kLanes<Pack> + lane;
  return {strip, lane, index, strip < job.cut.strips && index < job.cut.packs};
}

/// The groups of one place are neighbours, since they share lines of memory.
template <typename Pack>
LaunchShape strip_shape(const StripCut& cut) {
  constexpr int rows = kStripThreads / kLanes<Pack>;
  return {.grid = unsigned(cut.groups * divide_up(cut.strips, rows)),
          .threads = dim3(kLanes<Pack>, rows)};
}

/// depthwise_input_gradient for stride 2.
void scatter_gradient(const DepthwiseShape& shape, const void* output_gradient, const float* weight,
                      void* input_gradient, cudaStream_t stream);

}  // namespace triaccel::kernels::cuda
