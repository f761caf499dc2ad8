#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/conv/max_pool.cuh"

namespace triaccel::kernels::cuda {
namespace {

/// The taps of a pack's channels, one byte each, in whole words like the pack itself.
template <int kPack>
struct TapPack {
  std::uint32_t raw[(kPack + 3) / 4];

  __device__ bool is(int k, std::uint32_t tap) const {
    return (raw[k / 4] >> (k % 4 * 8) & 0xffu) == tap;
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

/// As libtorch adds them, in the type they are stored in.
template <typename Stored, int kPack>
__device__ ChannelPack<Stored, kPack> sum_of(const ChannelPack<Stored, kPack>& a,
                                             const ChannelPack<Stored, kPack>& b) {
  float sums[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) sums[k] = a.value(k) + b.value(k);
  return pack_channels<Stored, kPack>(sums);
}

/// For square windows of stride 2. A place is a cell of 2 x 2 pixels: the few windows over it are
/// loaded once for all four.
template <typename Stored, int kPack, int kWindow, int kPadding>
__global__ void __launch_bounds__(kPoolThreads, kPoolBlocks)
    cell_gradient_kernel(const void* output_gradient, const void* second_gradient,
                         const std::uint8_t* taps, void* map_gradient,
                         const __grid_constant__ Pooling pooling) {
  using Windows = WindowsOverPair<kWindow, kPadding>;
  constexpr int kCount = Windows::kCount;
  const PoolPlace place = place_of_thread<kPack>(pooling);
  wait_for_previous_kernel();
  if (!place.exists) return;
  const PoolAxis &rows = pooling.rows, &columns = pooling.columns;
  const std::int32_t first_row = place.row + Windows::kFirst;
  const std::int32_t first_column = place.column + Windows::kFirst;
  // Windows that do not exist read one that does: loads without branches are all on their way at
  // once.
  const auto element_of = [&](int r, int c) {
    const std::int32_t row = place.image * rows.output + nearest_inside(first_row + r, rows.output);
    const std::int32_t window =
        row * columns.output + nearest_inside(first_column + c, columns.output);
    return std::int64_t{window} * pooling.channels + place.channel;
  };
  ChannelPack<Stored, kPack> gradients[kCount][kCount];
  TapPack<kPack> found[kCount][kCount];
#pragma unroll
  for (int r = 0; r < kCount; ++r)
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      gradients[r][c] = load_channels<Stored, kPack>(output_gradient, element_of(r, c));
      found[r][c] = load_taps<kPack>(taps + element_of(r, c));
    }
  if (second_gradient != nullptr) {
    ChannelPack<Stored, kPack> seconds[kCount][kCount];
#pragma unroll
    for (int r = 0; r < kCount; ++r)
#pragma unroll
      for (int c = 0; c < kCount; ++c)
        seconds[r][c] = load_channels<Stored, kPack>(second_gradient, element_of(r, c));
#pragma unroll
    for (int r = 0; r < kCount; ++r)
#pragma unroll
      for (int c = 0; c < kCount; ++c) gradients[r][c] = sum_of(gradients[r][c], seconds[r][c]);
  }
  constexpr std::uint32_t kNoTaps = ~0u;
#pragma unroll
  for (int r = 0; r < kCount; ++r)
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const bool exists = first_row + r >= 0 && first_row + r < rows.output &&
                          first_column + c >= 0 && first_column + c < columns.output;
      for (std::uint32_t& four : found[r][c].raw) four = exists ? four : kNoTaps;
    }
#pragma unroll
  for (int pixel = 0; pixel < 4; ++pixel) {
    const int below = pixel / 2, right = pixel % 2;
    float sums[kPack] = {};
#pragma unroll
    for (int r = 0; r < kCount; ++r)
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        if (Windows::tap(r, below) < 0 || Windows::tap(c, right) < 0) continue;
        const int tap = Windows::tap(r, below) * kWindow + Windows::tap(c, right);
#pragma unroll
        for (int k = 0; k < kPack; ++k)
          if (found[r][c].is(k, static_cast<std::uint32_t>(tap)))
            sums[k] += gradients[r][c].value(k);
      }
    const std::int32_t row = 2 * place.row + below, column = 2 * place.column + right;
    const std::int32_t at = (place.image * rows.input + row) * columns.input + column;
    if (row < rows.input && column < columns.input)
      store_channels<Stored, kPack>(map_gradient,
                                    std::int64_t{at} * pooling.channels + place.channel, sums);
  }
}

/// For any windows; a place is a pixel.
template <typename Stored, int kPack>
__global__ void __launch_bounds__(kPoolThreads)
    gradient_kernel(const void* output_gradient, const void* second_gradient,
                    const std::uint8_t* taps, void* map_gradient,
                    const __grid_constant__ Pooling pooling) {
  const PoolPlace place = place_of_thread<kPack>(pooling);
  wait_for_previous_kernel();
  if (!place.exists) return;
  const PoolAxis &rows = pooling.rows, &columns = pooling.columns;
  const std::int32_t last_row = rows.last_window_over(place.row);
  const std::int32_t first_column = columns.first_window_over(place.column);
  const std::int32_t last_column = columns.last_window_over(place.column);
  float sums[kPack] = {};
  for (std::int32_t row = rows.first_window_over(place.row); row <= last_row; ++row)
    for (std::int32_t column = first_column; column <= last_column; ++column) {
      const std::int32_t window = (place.image * rows.output + row) * columns.output + column;
      const std::int64_t at = std::int64_t{window} * pooling.channels + place.channel;
      ChannelPack<Stored, kPack> gradients = load_channels<Stored, kPack>(output_gradient, at);
      if (second_gradient != nullptr)
        gradients = sum_of(gradients, load_channels<Stored, kPack>(second_gradient, at));
      const TapPack<kPack> found = load_taps<kPack>(taps + at);
      const std::int32_t tap =
          (place.row - rows.start(row)) * columns.window + place.column - columns.start(column);
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        if (found.is(k, static_cast<std::uint32_t>(tap))) sums[k] += gradients.value(k);
    }
  store_channels<Stored, kPack>(map_gradient,
                                std::int64_t{place.index} * pooling.channels + place.channel, sums);
}

/// Whether cell_gradient_kernel of these constants is for it.
bool pools_cells(const PoolShape& shape, std::int64_t window, std::int64_t padding) {
  return is_square(shape, window) && shape.rows.stride == 2 && shape.columns.stride == 2 &&
         shape.rows.padding == padding && shape.columns.padding == padding;
}

}  // namespace

void max_pool_gradient(const PoolShape& shape, const void* output_gradient,
                       const void* second_gradient, const std::uint8_t* taps, void* map_gradient,
                       cudaStream_t stream) {
  if (shape.images * shape.channels == 0) return;
  with_channel_pack(shape.type, shape.channels,
                    aligned_for_vectors(output_gradient, second_gradient, taps, map_gradient),
                    [&]<typename Stored, int kPack>(Stored, Constant<kPack>) {
                      const auto launch = [&](auto kernel, std::int64_t pixels_of_place) {
                        launch_pooling("max_pool_gradient", kernel, shape, kPack,
                                       divide_up(shape.rows.input, pixels_of_place),
                                       divide_up(shape.columns.input, pixels_of_place), stream,
                                       output_gradient, second_gradient, taps, map_gradient);
                      };
                      if constexpr (kPack > 1) {
                        if (pools_cells(shape, 3, 1))
                          return launch(cell_gradient_kernel<Stored, kPack, 3, 1>, 2);
                        if (pools_cells(shape, 3, 0))
                          return launch(cell_gradient_kernel<Stored, kPack, 3, 0>, 2);
                        if (pools_cells(shape, 2, 0))
                          return launch(cell_gradient_kernel<Stored, kPack, 2, 0>, 2);
                      }
                      launch(gradient_kernel<Stored, kPack>, 1);
                    });
}

}  // namespace triaccel::kernels::cuda
