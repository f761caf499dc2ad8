#pragma once

#include <type_traits>

#include "triaccel/kernels/common/channel_pack.cuh"
#include "triaccel/kernels/common/fast_divide.cuh"
#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/conv/max_pool.h"

// How both directions of a pooling are cut into threads.
namespace triaccel::kernels::cuda {

inline constexpr int kPoolThreads = 128;  // small: few windows are to occupy all multiprocessors
inline constexpr int kPoolBlocks = 6;  // of a multiprocessor: told of no more, the compiler keeps
                                       // all loads of a thread on their way at once

/// A WindowAxis in 32 bits.
struct PoolAxis {
  std::int32_t input, output, window, stride, padding;

  explicit PoolAxis(const WindowAxis& axis)
      : input(static_cast<std::int32_t>(axis.input)),
        output(static_cast<std::int32_t>(axis.output)),
        window(static_cast<std::int32_t>(axis.window)),
        stride(static_cast<std::int32_t>(axis.stride)),
        padding(static_cast<std::int32_t>(axis.padding)) {}

  /// Where a window begins, which may lie outside the map.
  __device__ std::int32_t start(std::int32_t o) const { return o * stride - padding; }

  __device__ std::int32_t first_window_over(std::int32_t position) const {
    const std::int32_t before = position + padding - window;
    return before < 0 ? 0 : before / stride + 1;
  }
  __device__ std::int32_t last_window_over(std::int32_t position) const {
    return min(output - 1, (position + padding) / stride);
  }
};

/// A place is what a thread writes of some channels, one pack: a window's maximum, or the gradients
/// of a pixel or of a cell of pixels. A block takes one for each of its rows of threads, which lie
/// along the packs; blockIdx.y counts groups of packs.
struct Pooling {
  PoolAxis rows, columns;
  FastDivide place_rows, place_columns;
  std::int32_t places, packs, channels;
};

struct PoolPlace {
  std::int32_t index, image, row, column;
  std::int32_t channel;  // the first of the pack
  bool exists;
};

template <int kPack>
__device__ PoolPlace place_of_thread(const Pooling& pooling) {
  const auto index = static_cast<std::int32_t>(blockIdx.x * blockDim.y + threadIdx.y);
  const auto pack = static_cast<std::int32_t>(blockIdx.y * blockDim.x + threadIdx.x);
  const FastDivide::Result above = pooling.place_columns(index);
  const FastDivide::Result image = pooling.place_rows(above.quotient);
  return {.index = index,
          .image = image.quotient,
          .row = image.remainder,
          .column = above.remainder,
          .channel = pack * kPack,
          .exists = index < pooling.places && pack < pooling.packs};
}

inline bool is_square(const PoolShape& shape, std::int64_t window) {
  return shape.rows.window == window && shape.columns.window == window;
}

/// Places lie in rows * columns for each image.
template <typename Kernel, typename... Pointers>
void launch_pooling(std::string_view who, Kernel kernel, const PoolShape& shape, int pack,
                    std::int64_t rows, std::int64_t columns, cudaStream_t stream,
                    Pointers... pointers) {
  const std::int64_t places = shape.images * rows * columns, packs = shape.channels / pack;
  const std::int64_t lanes = std::min<std::int64_t>(packs, kPoolThreads);
  const std::int64_t of_block = kPoolThreads / lanes;
  launch_overlapped(who, kernel,
                    {.grid = {blocks_for(places, of_block), blocks_for(packs, lanes)},
                     .threads = {unsigned(lanes), unsigned(of_block)}},
                    stream, pointers...,
                    Pooling{.rows = PoolAxis(shape.rows),
                            .columns = PoolAxis(shape.columns),
                            .place_rows = FastDivide(rows),
                            .place_columns = FastDivide(columns),
                            .places = static_cast<std::int32_t>(places),
                            .packs = static_cast<std::int32_t>(packs),
                            .channels = static_cast<std::int32_t>(shape.channels)});
}

template <int value>
using Constant = std::integral_constant<int, value>;

}  // namespace triaccel::kernels::cuda
