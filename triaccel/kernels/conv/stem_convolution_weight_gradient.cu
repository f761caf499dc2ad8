#include "triaccel/kernels/common/block_sums.cuh"
#include "triaccel/kernels/conv/stem_convolution.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kGradientThreads = kGradientWarps * 32;
constexpr int kPixelsAThread = kTilePixels / kGradientThreads;
constexpr int kMaxTapGroups = kMaxStemTaps / kGroupTaps;
static_assert(kMaxTapGroups <= kGradientWarps);

/// 16-bit numbers from one window's gradient to the next in shared memory: with the gap, eight
/// windows lie in different banks.
constexpr int gradient_pitch(int filters) { return filters + 8; }

/// The output's gradient of a tile's windows for the block's filters, [window][filter]; zeros where
/// there is no window or filter, so that what the matrices see there counts for nothing. What is
/// not finite does, but they see only pixels that windows of the output see as well.
template <int filters>
__device__ void copy_gradient(const ImageWork& work, const std::uint16_t* gradient,
                              const TilePlace& place, std::int32_t first_filter,
                              std::uint16_t* to) {
  constexpr int chunks = filters / 8;
  const std::int64_t corner =
      ((place.image * work.rows.output + place.row) * work.columns.output + place.column) *
          work.filters +
      first_filter;
#pragma unroll
  for (int k = 0; k < kTileWindows * chunks / kGradientThreads; ++k) {
    const auto i = static_cast<std::int32_t>(threadIdx.x) + k * kGradientThreads;
    const std::int32_t window = i / chunks, filter = i % chunks * 8;
    const FastDivide::Result row = work.tile_columns(window);
    const bool live = (window < work.tiles.windows()) &
                      (place.row + row.quotient < work.rows.output) &
                      (place.column + row.remainder < work.columns.output) &
                      (first_filter + filter < work.filters);
    const std::int64_t from =
        corner + std::int64_t{row.quotient * work.columns.output + row.remainder} * work.filters +
        filter;
    copy_16_bytes(to + window * gradient_pitch(filters) + filter, gradient + (live ? from : 0),
                  live);
  }
}

/// B of every channel for 16 windows: pairs of what two windows see at the lane's tap. The windows
/// are given by their pixels, in the order of window_of.
__device__ void load_pairs(const uint2* tile, const std::int32_t* window_pixels, std::int32_t slot,
                           std::int32_t tap, std::uint32_t (&b)[4][2]) {
  constexpr unsigned low = 0x5410, high = 0x7632;  // halves of both
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int2 pixels = *reinterpret_cast<const int2*>(window_pixels + half * 8 + 2 * slot);
    const uint2 first = tile[pixels.x + tap], second = tile[pixels.y + tap];
    b[0][half] = __byte_perm(first.x, second.x, low);
    b[1][half] = __byte_perm(first.x, second.x, high);
    b[2][half] = __byte_perm(first.y, second.y, low);
    b[3][half] = __byte_perm(first.y, second.y, high);
  }
}

/// A warp takes one group of taps for all filters of the block; where there are fewer groups than
/// warps, warps share the windows. The map of the output's gradient is read once and the images
/// once for each group of filters, both while the tile before is multiplied. At the end every block
/// leaves its sums for add_blocks: 43 kB for 64 filters of 7 x 7 x 3, of 264 blocks at most.
template <int filters, typename Stored>
__global__ void __launch_bounds__(kGradientThreads, 2)
    gradient_kernel(const std::uint16_t* output_gradient, const void* images, float* partials,
                    const __grid_constant__ ImageWork work, std::int32_t tap_groups,
                    std::int64_t partial) {
  constexpr int kMatrices = filters / 16, kSums = kMatrices * 4 * 4;
  constexpr int kBuffer = kTileWindows * gradient_pitch(filters);
  extern __shared__ uint4 shared[];
  const StemTiles& tiles = work.tiles;
  auto* const gradients = reinterpret_cast<std::uint16_t*>(shared);
  uint2* const tile = reinterpret_cast<uint2*>(gradients + 2 * kBuffer);
  auto* const window_pixels = reinterpret_cast<std::int32_t*>(tile + tile_words(tiles));
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t warp = thread / 32, lane = thread % 32;
  const std::int32_t tap_group = warp % tap_groups, share = warp / tap_groups;
  const std::int32_t shares = kGradientWarps / tap_groups;
  const std::int32_t tap =
      tap_pixel(tiles, work.taps, work.columns.window, tap_group * kGroupTaps + lane / 4);
  const std::int32_t first_filter = static_cast<std::int32_t>(blockIdx.y) * filters;
  const std::int32_t steps = (tiles.windows() + 15) / 16;
  for (std::int32_t inner = thread; inner < kTileWindows; inner += kGradientThreads)
    window_pixels[inner] =
        window_pixel(tiles, work.rows.stride, work.columns.stride, window_of(inner));
  wait_for_previous_kernel();

  float sums[kMatrices][4][4] = {};  // of every channel
  PixelBatch<kPixelsAThread> pixels;
  const auto count = static_cast<std::int32_t>(tiles.count);
  const auto stride = static_cast<std::int32_t>(gridDim.x);
  const auto fetch = [&](std::int32_t which, std::uint16_t* to) {
    if (which < count) {
      const TilePlace place = locate_tile(work, which);
      copy_gradient<filters>(work, output_gradient, place, first_filter, to);
      pixels.load(work, images, place, thread, kGradientThreads);
    }
    end_of_copies();
  };
  auto which = static_cast<std::int32_t>(blockIdx.x);
  fetch(which, gradients);
  for (int buffer = 0; which < count; which += stride, buffer ^= 1) {
    __syncthreads();  // the tile before has been multiplied
    pixels.store(Stored{}, work, tile, thread, kGradientThreads);
    fetch(which + stride, gradients + (buffer ^ 1) * kBuffer);
    wait_for_copies<1>();
    __syncthreads();
    // Matrix 0 of the four that make an A: filters 0 up to 7, inner indices 0 up to 7; 1: the next
    // filters; 2 and 3: the same for the next inner indices.
    const std::uint16_t* rows = gradients + buffer * kBuffer +
                                window_of(lane % 8 + lane / 16 * 8) * gradient_pitch(filters) +
                                lane / 8 % 2 * 8;
    for (std::int32_t step = share; share < shares && step < steps; step += shares) {
      std::uint32_t b[4][2];
      load_pairs(tile, window_pixels + step * 16, lane % 4, tap, b);
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
        std::uint32_t a[4];
        load_transposed(a, rows + step * 16 * gradient_pitch(filters) + m * 16);
#pragma unroll
        for (int c = 0; c < 4; ++c)
          if (c < work.channels) multiply(Stored{}, sums[m][c], a, b[c][0], b[c][1]);
      }
    }
  }
  let_next_kernel_begin();

  // The sums of all shares, in their order, in the place of the gradients.
  float* const slots = reinterpret_cast<float*>(shared) + tap_group * kSums * 32 + lane;
  for (std::int32_t from = 1; from < shares; ++from) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      if (share == from) slots[i * 32] = sums[i / 16][i / 4 % 4][i % 4];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      if (share == 0) sums[i / 16][i / 4 % 4][i % 4] += slots[i * 32];
  }
  if (share != 0) return;
  float* const to = partials + blockIdx.x * partial + blockIdx.y * (partial / gridDim.y) + lane * 4;
#pragma unroll
  for (int m = 0; m < kMatrices; ++m)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (c < work.channels)
        *reinterpret_cast<float4*>(to + gradient_index(tap_group, kMatrices, m, work.channels, c)) =
            make_float4(sums[m][c][0], sums[m][c][1], sums[m][c][2], sums[m][c][3]);
}

/// From the order that blocks leave their sums in to that of the weights.
struct WeightPlace {
  std::int32_t group_filters, tap_groups;
  std::int32_t filters, taps, channels;

  __device__ std::int64_t operator()(std::int64_t i) const {
    const GradientPlace place =
        gradient_place(static_cast<std::int32_t>(i), group_filters, tap_groups, channels);
    if (place.filter >= filters || place.tap >= taps) return -1;
    return (std::int64_t{place.filter} * taps + place.tap) * channels + place.channel;
  }
};

}  // namespace

void stem_weight_gradient(const StemConvolutionShape& shape, const void* output_gradient,
                          const void* images, float* scratch, float* weight_gradient,
                          cudaStream_t stream) {
  constexpr std::string_view who = "stem_weight_gradient";
  const ImageGradientWork work = image_gradient_work(shape, tiles_of(who, shape));
  const ImageWork of_images(shape, work.tiles);
  const auto tap_groups = static_cast<std::int32_t>(work.tap_groups);
  const auto launch = [&]<int filters, typename Stored>(std::integral_constant<int, filters>,
                                                        Stored) {
    launch_overlapped(
        who, gradient_kernel<filters, Stored>,
        {.grid = dim3(static_cast<unsigned>(work.blocks), static_cast<unsigned>(work.groups.count)),
         .threads = dim3(kGradientThreads),
         .shared_bytes = static_cast<unsigned>(
             2 * kTileWindows * gradient_pitch(filters) * sizeof(std::uint16_t) +
             tile_words(work.tiles) * sizeof(uint2) + kTileWindows * sizeof(std::int32_t))},
        stream, static_cast<const std::uint16_t*>(output_gradient), images, scratch, of_images,
        tap_groups, work.partial);
  };
  with_operand_type(shape.type, [&](auto stored) {
    if (work.groups.filters == 64)
      launch(std::integral_constant<int, 64>{}, stored);
    else
      launch(std::integral_constant<int, 32>{}, stored);
  });
  const WeightPlace place = {.group_filters = static_cast<std::int32_t>(work.groups.filters),
                             .tap_groups = tap_groups,
                             .filters = of_images.filters,
                             .taps = of_images.taps,
                             .channels = of_images.channels};
  add_blocks(who, {.numbers = scratch, .blocks = work.blocks, .count = work.partial},
             weight_gradient, place, stream);
}

}  // namespace triaccel::kernels::cuda
