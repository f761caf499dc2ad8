#include "triaccel/kernels/max_pool.h"

#include "triaccel/kernels/cuda/channel_pack.cuh"
#include "triaccel/kernels/cuda/fast_divide.cuh"
#include "triaccel/kernels/cuda/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kPoolThreads = 128;  // small: few windows are to occupy all multiprocessors

/// A WindowAxis whose window and stride are constants of the kernel where they are not 0.
template <int kWindow, int kStride>
struct Axis {
  std::int32_t input, output, run_time_window, run_time_stride, padding;

  explicit Axis(const WindowAxis& axis)
      : input(static_cast<std::int32_t>(axis.input)),
        output(static_cast<std::int32_t>(axis.output)),
        run_time_window(static_cast<std::int32_t>(axis.window)),
        run_time_stride(static_cast<std::int32_t>(axis.stride)),
        padding(static_cast<std::int32_t>(axis.padding)) {}

  __device__ std::int32_t window() const { return kWindow > 0 ? kWindow : run_time_window; }
  __device__ std::int32_t stride() const { return kStride > 0 ? kStride : run_time_stride; }

  /// Where a window begins, which may lie outside the map.
  __device__ std::int32_t start(std::int32_t o) const { return o * stride() - padding; }

  __device__ std::int32_t first_window_over(std::int32_t position) const {
    const std::int32_t before = position + padding - window();
    return before < 0 ? 0 : before / stride() + 1;
  }
  __device__ std::int32_t last_window_over(std::int32_t position) const {
    return min(output - 1, (position + padding) / stride());
  }
};

/// A block takes one pixel of the map it writes for each of its rows of threads, which lie along
/// the packs of a pixel; blockIdx.y counts groups of packs.
template <int kWindow, int kStride>
struct Pooling {
  Axis<kWindow, kStride> rows, columns;
  FastDivide map_rows, map_columns;  // of the map that is written
  std::int64_t channels;
  std::int32_t pixels;
  std::int32_t packs;
};

struct Place {
  std::int32_t image, row, column;
};

template <int kWindow, int kStride>
__device__ Place locate(const Pooling<kWindow, kStride>& pooling, std::int32_t pixel) {
  const FastDivide::Result above = pooling.map_columns(pixel);
  const FastDivide::Result image = pooling.map_rows(above.quotient);
  return {image.quotient, image.remainder, above.remainder};
}

/// The taps of a pack's channels, one byte each, in whole words like the pack itself.
template <int kPack>
struct TapPack {
  std::uint32_t raw[(kPack + 3) / 4] = {};

  __device__ std::int32_t tap(int k) const {
    return static_cast<std::int32_t>(raw[k / 4] >> (k % 4 * 8) & 0xffu);
  }
  __device__ void set(int k, std::int32_t tap) {
    raw[k / 4] |= static_cast<std::uint32_t>(tap) << (k % 4 * 8);
  }
};

template <int kPack>
__device__ TapPack<kPack> load_taps(const std::uint8_t* from) {
  if constexpr (kPack == 1) {
    return {*from};
  } else if constexpr (kPack == 4) {
    return {*reinterpret_cast<const std::uint32_t*>(from)};
  } else {
    static_assert(kPack == 8);
    const uint2 raw = *reinterpret_cast<const uint2*>(from);
    return {raw.x, raw.y};
  }
}

template <int kPack>
__device__ void store_taps(std::uint8_t* to, const TapPack<kPack>& pack) {
  if constexpr (kPack == 1)
    *to = static_cast<std::uint8_t>(pack.raw[0]);
  else if constexpr (kPack == 4)
    *reinterpret_cast<std::uint32_t*>(to) = pack.raw[0];
  else
    __stwb(reinterpret_cast<uint2*>(to), make_uint2(pack.raw[0], pack.raw[1]));
}

template <typename Stored, int kPack, int kWindow, int kStride>
__global__ void __launch_bounds__(kPoolThreads)
    pool_kernel(const void* map, void* values, std::uint8_t* taps,
                const __grid_constant__ Pooling<kWindow, kStride> pooling) {
  const auto pixel = static_cast<std::int32_t>(blockIdx.x * blockDim.y + threadIdx.y);
  const auto pack = static_cast<std::int32_t>(blockIdx.y * blockDim.x + threadIdx.x);
  wait_for_previous_kernel();
  if (pixel >= pooling.pixels || pack >= pooling.packs) return;
  const auto& rows = pooling.rows;
  const auto& columns = pooling.columns;
  const Place place = locate(pooling, pixel);
  const std::int32_t y = rows.start(place.row), x = columns.start(place.column);
  const std::int64_t first_pixel = std::int64_t{place.image} * rows.input * columns.input;
  const auto load = [&](std::int32_t row, std::int32_t column) {
    const std::int64_t from = first_pixel + std::int64_t{row} * columns.input + column;
    return load_channels<Stored, kPack>(map, from * pooling.channels + pack * kPack);
  };
  float best[kPack];
  std::int32_t where[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    best[k] = float_from_bits(0xff800000u);
    where[k] = max(0, -y) * columns.window() + max(0, -x);
  }
  const auto consider = [&](const ChannelPack<Stored, kPack>& candidates, std::int32_t tap,
                            bool inside) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const float value = candidates.value(k);
      const bool wins = inside & ((value > best[k]) | (value != value));  // no branches
      best[k] = wins ? value : best[k];
      where[k] = wins ? tap : where[k];
    }
  };
  if constexpr (kWindow > 0) {
    // Taps outside the map read a pixel inside: loads without branches are all on their way at
    // once.
    ChannelPack<Stored, kPack> window[kWindow][kWindow];
#pragma unroll
    for (int r = 0; r < kWindow; ++r)
#pragma unroll
      for (int c = 0; c < kWindow; ++c)
        window[r][c] =
            load(min(max(y + r, 0), rows.input - 1), min(max(x + c, 0), columns.input - 1));
#pragma unroll
    for (int r = 0; r < kWindow; ++r)
#pragma unroll
      for (int c = 0; c < kWindow; ++c)
        consider(window[r][c], r * kWindow + c,
                 (y + r >= 0) & (y + r < rows.input) & (x + c >= 0) & (x + c < columns.input));
  } else {
    const std::int32_t row_end = min(rows.window(), rows.input - y);
    const std::int32_t column_end = min(columns.window(), columns.input - x);
    for (std::int32_t r = max(0, -y); r < row_end; ++r)
      for (std::int32_t c = max(0, -x); c < column_end; ++c)
        consider(load(y + r, x + c), r * columns.window() + c, true);
  }
  const std::int64_t at = std::int64_t{pixel} * pooling.channels + pack * kPack;
  store_channels<Stored, kPack>(values, at, best);
  TapPack<kPack> found;
#pragma unroll
  for (int k = 0; k < kPack; ++k) found.set(k, where[k]);
  store_taps(taps + at, found);
}

template <typename Stored, int kPack, int kWindow, int kStride>
__global__ void __launch_bounds__(kPoolThreads)
    gradient_kernel(const void* output_gradient, const std::uint8_t* taps, void* map_gradient,
                    const __grid_constant__ Pooling<kWindow, kStride> pooling) {
  const auto pixel = static_cast<std::int32_t>(blockIdx.x * blockDim.y + threadIdx.y);
  const auto pack = static_cast<std::int32_t>(blockIdx.y * blockDim.x + threadIdx.x);
  wait_for_previous_kernel();
  if (pixel >= pooling.pixels || pack >= pooling.packs) return;
  const auto& rows = pooling.rows;
  const auto& columns = pooling.columns;
  const Place place = locate(pooling, pixel);
  const std::int32_t first_row = rows.first_window_over(place.row);
  const std::int32_t last_row = rows.last_window_over(place.row);
  const std::int32_t first_column = columns.first_window_over(place.column);
  const std::int32_t last_column = columns.last_window_over(place.column);
  const std::int64_t first_output = std::int64_t{place.image} * rows.output * columns.output;
  const auto element_of = [&](std::int32_t row, std::int32_t column) {
    const std::int64_t output = first_output + std::int64_t{row} * columns.output + column;
    return output * pooling.channels + pack * kPack;
  };
  float sums[kPack] = {};
  const auto add = [&](const ChannelPack<Stored, kPack>& gradient, const TapPack<kPack>& found,
                       std::int32_t row, std::int32_t column, bool real) {
    const std::int32_t tap =
        (place.row - rows.start(row)) * columns.window() + place.column - columns.start(column);
#pragma unroll
    for (int k = 0; k < kPack; ++k)
      sums[k] += real && found.tap(k) == tap ? gradient.value(k) : 0.0f;
  };
  if constexpr (kWindow > 0) {
    // Windows that do not exist read the last one that does, for the same reason as above.
    constexpr int kSpan = (kWindow + kStride - 1) / kStride;
    ChannelPack<Stored, kPack> gradients[kSpan][kSpan];
    TapPack<kPack> found[kSpan][kSpan];
#pragma unroll
    for (int r = 0; r < kSpan; ++r)
#pragma unroll
      for (int c = 0; c < kSpan; ++c) {
        const std::int64_t at = element_of(min(first_row + r, rows.output - 1),
                                           min(first_column + c, columns.output - 1));
        gradients[r][c] = load_channels<Stored, kPack>(output_gradient, at);
        found[r][c] = load_taps<kPack>(taps + at);
      }
#pragma unroll
    for (int r = 0; r < kSpan; ++r)
#pragma unroll
      for (int c = 0; c < kSpan; ++c)
        add(gradients[r][c], found[r][c], first_row + r, first_column + c,
            first_row + r <= last_row && first_column + c <= last_column);
  } else {
    for (std::int32_t row = first_row; row <= last_row; ++row)
      for (std::int32_t column = first_column; column <= last_column; ++column) {
        const std::int64_t at = element_of(row, column);
        add(load_channels<Stored, kPack>(output_gradient, at), load_taps<kPack>(taps + at), row,
            column, true);
      }
  }
  store_channels<Stored, kPack>(map_gradient, std::int64_t{pixel} * pooling.channels + pack * kPack,
                                sums);
}

template <int value>
using Constant = std::integral_constant<int, value>;

/// body(stored type, pack, window, stride), the last two 0 where they are known only at run time.
template <typename Body>
void with_pooling(const PoolShape& shape, bool aligned, Body body) {
  const auto is_square = [&](std::int64_t window, std::int64_t stride) {
    return shape.rows.window == window && shape.columns.window == window &&
           shape.rows.stride == stride && shape.columns.stride == stride;
  };
  with_channel_pack(shape.type, shape.channels, aligned,
                    [&]<typename Stored, int kPack>(Stored stored, Constant<kPack> pack) {
                      if constexpr (kPack > 1) {
                        if (is_square(3, 2))
                          return body(stored, pack, Constant<3>{}, Constant<2>{});
                        if (is_square(2, 2))
                          return body(stored, pack, Constant<2>{}, Constant<2>{});
                      }
                      body(stored, pack, Constant<0>{}, Constant<0>{});
                    });
}

/// Calls launch(shape, pooling) for a map of rows * columns pixels to be written.
template <int kWindow, int kStride, typename Launch>
void launch_pooling(const PoolShape& shape, int pack, std::int64_t rows, std::int64_t columns,
                    Launch launch) {
  const std::int64_t pixels = shape.images * rows * columns, packs = shape.channels / pack;
  const std::int64_t lanes = std::min<std::int64_t>(packs, kPoolThreads);
  const std::int64_t places = kPoolThreads / lanes;
  launch(LaunchShape{.grid = {blocks_for(pixels, places), blocks_for(packs, lanes)},
                     .threads = {unsigned(lanes), unsigned(places)}},
         Pooling<kWindow, kStride>{.rows = Axis<kWindow, kStride>(shape.rows),
                                   .columns = Axis<kWindow, kStride>(shape.columns),
                                   .map_rows = FastDivide(rows),
                                   .map_columns = FastDivide(columns),
                                   .channels = shape.channels,
                                   .pixels = static_cast<std::int32_t>(pixels),
                                   .packs = static_cast<std::int32_t>(packs)});
}

}  // namespace

void max_pool(const PoolShape& shape, const void* map, void* values, std::uint8_t* taps,
              cudaStream_t stream) {
  if (shape.images * shape.channels == 0) return;
  with_pooling(shape, starts_packs(map, values, taps),
               [&]<typename Stored, int kPack, int kWindow, int kStride>(
                   Stored, Constant<kPack>, Constant<kWindow>, Constant<kStride>) {
                 launch_pooling<kWindow, kStride>(
                     shape, kPack, shape.rows.output, shape.columns.output,
                     [&](const LaunchShape& launch, const Pooling<kWindow, kStride>& pooling) {
                       launch_overlapped("max_pool", pool_kernel<Stored, kPack, kWindow, kStride>,
                                         launch, stream, map, values, taps, pooling);
                     });
               });
}

void max_pool_gradient(const PoolShape& shape, const void* output_gradient,
                       const std::uint8_t* taps, void* map_gradient, cudaStream_t stream) {
  if (shape.images * shape.channels == 0) return;
  with_pooling(shape, starts_packs(output_gradient, taps, map_gradient),
               [&]<typename Stored, int kPack, int kWindow, int kStride>(
                   Stored, Constant<kPack>, Constant<kWindow>, Constant<kStride>) {
                 launch_pooling<kWindow, kStride>(
                     shape, kPack, shape.rows.input, shape.columns.input,
                     [&](const LaunchShape& launch, const Pooling<kWindow, kStride>& pooling) {
                       launch_overlapped("max_pool_gradient",
                                         gradient_kernel<Stored, kPack, kWindow, kStride>, launch,
                                         stream, output_gradient, taps, map_gradient, pooling);
                     });
               });
}

}  // namespace triaccel::kernels::cuda
