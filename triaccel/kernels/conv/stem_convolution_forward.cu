#include "triaccel/kernels/conv/stem_convolution.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kForwardThreads = 128;
constexpr int kWarpMatrices = 4;                   // of 8 windows each, that a warp takes of a tile
constexpr std::int64_t kMaxBlocks = 528;           // four for each multiprocessor of a large chip
constexpr int kPixelsAtOnce = 4, kTapsAtOnce = 8;  // that a thread has on their way
static_assert(kForwardThreads / 32 * kWarpMatrices * 8 == kTileWindows);

struct ForwardWork {
  ImageWork image;
  FastDivide step_taps;  // taps of all steps: kStepTaps each
  std::int32_t steps;
};

/// The weights of filters [first_filter, + filters) as A of every step; zeros beyond the last
/// filter, tap and channel. To be called by the whole block.
template <int filters, typename Stored>
__device__ void load_weights(const ForwardWork& work, const float* weight,
                             std::int32_t first_filter, std::uint32_t* to) {
  const ImageWork& image = work.image;
  const std::int32_t count = filters * kStepTaps * work.steps;
  for (auto first = static_cast<std::int32_t>(threadIdx.x); first < count;
       first += kTapsAtOnce * kForwardThreads) {
    float values[kTapsAtOnce][4];
    std::int32_t filter[kTapsAtOnce], tap[kTapsAtOnce];
#pragma unroll
    for (int k = 0; k < kTapsAtOnce; ++k) {
      const std::int32_t unit = first + k * kForwardThreads;
      const FastDivide::Result place = work.step_taps(unit / 2);
      filter[k] = place.quotient * 2 + unit % 2;  // neighbours are written to different banks
      tap[k] = place.remainder;
      const bool live =
          unit < count && first_filter + filter[k] < image.filters && tap[k] < image.taps;
      const std::int64_t from =
          (std::int64_t{first_filter + filter[k]} * image.taps + tap[k]) * image.channels;
#pragma unroll
      for (int c = 0; c < 4; ++c)
        values[k][c] = live && c < image.channels ? weight[from + c] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kTapsAtOnce; ++k)
      if (first + k * kForwardThreads < count) {
        const std::int32_t pair = weight_pair(filters, filter[k], tap[k]);
        to[pair] = rounded_pair(Stored{}, values[k][0], values[k][1]);
        to[pair + kOtherChannels] = rounded_pair(Stored{}, values[k][2], values[k][3]);
      }
  }
}

/// Every block keeps the weights of its filters and takes tile after tile. Moves the output map
/// once, and what the tiles see of the images: of windows of 7 x 7 every other pixel a tenth to a
/// half more than there is, out of the cache.
template <int filters, typename Stored>
__global__ void __launch_bounds__(kForwardThreads, 4)
    forward_kernel(const void* images, const float* weight, std::uint16_t* output,
                   const __grid_constant__ ForwardWork work) {
  constexpr int kMatrices = filters / 16;
  extern __shared__ uint4 shared[];
  const ImageWork& image = work.image;
  const StemTiles& tiles = image.tiles;
  auto* const weights = reinterpret_cast<std::uint32_t*>(shared);
  uint2* const tile = reinterpret_cast<uint2*>(weights + work.steps * pairs_a_step(filters));
  auto* const tap_pixels = reinterpret_cast<std::int32_t*>(tile + tile_words(tiles));
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t lane = thread % 32, lane_row = lane / 4, slot = lane % 4;
  const std::int32_t first_window = thread / 32 * kWarpMatrices * 8;
  const std::int32_t first_filter = static_cast<std::int32_t>(blockIdx.y) * filters;
  const uint2* windows[kWarpMatrices];  // that the lane has columns of
#pragma unroll
  for (int w = 0; w < kWarpMatrices; ++w)
    windows[w] = tile + window_pixel(tiles, image.rows.stride, image.columns.stride,
                                     first_window + w * 8 + lane_row);
  for (std::int32_t tap = thread; tap < work.steps * kStepTaps; tap += kForwardThreads)
    tap_pixels[tap] = tap_pixel(tiles, image.taps, image.columns.window, tap);
  wait_for_previous_kernel();
  load_weights<filters, Stored>(work, weight, first_filter, weights);

  const auto count = static_cast<std::int32_t>(tiles.count);
  for (auto which = static_cast<std::int32_t>(blockIdx.x); which < count;
       which += static_cast<std::int32_t>(gridDim.x)) {
    const TilePlace place = locate_tile(image, which);
    __syncthreads();  // the tile before has been read
    for (std::int32_t first = thread; first < tiles.seen_rows * tiles.seen_columns;
         first += kPixelsAtOnce * kForwardThreads) {
      PixelBatch<kPixelsAtOnce> pixels;
      pixels.load(image, images, place, first, kForwardThreads);
      pixels.store(Stored{}, image, tile, first, kForwardThreads);
    }
    __syncthreads();
    if (first_window >= tiles.windows()) continue;
    float sums[kMatrices][kWarpMatrices][4] = {};
    const uint4* of_step = reinterpret_cast<const uint4*>(weights) + lane;
    for (std::int32_t step = 0; step < work.steps; ++step, of_step += pairs_a_step(filters) / 4) {
      const std::int32_t tap = tap_pixels[step * kStepTaps + slot];
      uint2 b[kWarpMatrices];
#pragma unroll
      for (int w = 0; w < kWarpMatrices; ++w) b[w] = windows[w][tap];
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
        const uint4 pairs = of_step[m * 32];
        const std::uint32_t a[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
#pragma unroll
        for (int w = 0; w < kWarpMatrices; ++w) multiply(Stored{}, sums[m][w], a, b[w].x, b[w].y);
      }
    }
    const std::int32_t filter = first_filter + filter_of(kMatrices, 0, lane_row);
#pragma unroll
    for (int w = 0; w < kWarpMatrices; ++w)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::int32_t window = first_window + w * 8 + slot * 2 + i;
        const FastDivide::Result in_tile = image.tile_columns(window);
        const std::int32_t row = place.row + in_tile.quotient;
        const std::int32_t column = place.column + in_tile.remainder;
        if (window >= tiles.windows() || row >= image.rows.output ||
            column >= image.columns.output || filter >= image.filters)
          continue;
        std::uint16_t* const to =
            output +
            ((place.image * image.rows.output + row) * image.columns.output + column) *
                image.filters +
            filter;
        const auto pair = [&](int m) {
          return rounded_pair(Stored{}, sums[m][w][i], sums[m][w][i + 2]);
        };
        if constexpr (kMatrices == 4)
          __stwb(reinterpret_cast<uint4*>(to), make_uint4(pair(0), pair(1), pair(2), pair(3)));
        else
          __stwb(reinterpret_cast<uint2*>(to), make_uint2(pair(0), pair(1)));
      }
  }
}

}  // namespace

bool has_stem_convolution() { return code_target() >= 80; }

void stem_convolution(const StemConvolutionShape& shape, const void* images, const float* weight,
                      void* output, cudaStream_t stream) {
  constexpr std::string_view who = "stem_convolution";
  if (shape.images == 0) return;
  const StemTiles tiles = tiles_of(who, shape);
  const FilterGroups groups = group_filters(shape.filters);
  const auto steps = static_cast<std::int32_t>(divide_up(image_taps(shape), kStepTaps));
  const ForwardWork work = {
      .image = ImageWork(shape, tiles), .step_taps = FastDivide(steps * kStepTaps), .steps = steps};
  const auto most_blocks = std::max<std::int64_t>(1, kMaxBlocks / groups.count);
  const auto launch = [&]<int filters, typename Stored>(std::integral_constant<int, filters>,
                                                        Stored) {
    const std::size_t bytes = steps * pairs_a_step(filters) * sizeof(std::uint32_t) +
                              tile_words(tiles) * sizeof(uint2) +
                              steps * kStepTaps * sizeof(std::int32_t);
    launch_overlapped(who, forward_kernel<filters, Stored>,
                      {.grid = dim3(static_cast<unsigned>(std::min(tiles.count, most_blocks)),
                                    static_cast<unsigned>(groups.count)),
                       .threads = dim3(kForwardThreads),
                       .shared_bytes = static_cast<unsigned>(bytes)},
                      stream, images, weight, static_cast<std::uint16_t*>(output), work);
  };
  with_operand_type(shape.type, [&](auto stored) {
    if (groups.filters == 64)
      launch(std::integral_constant<int, 64>{}, stored);
    else
      launch(std::integral_constant<int, 32>{}, stored);
  });
}

}  // namespace triaccel::kernels::cuda
