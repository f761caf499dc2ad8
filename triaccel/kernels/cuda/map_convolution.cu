#include "triaccel/kernels/map_convolution.h"

#include "triaccel/kernels/cuda/fast_divide.cuh"
#include "triaccel/kernels/cuda/overlapped_launch.cuh"
#include "triaccel/kernels/cuda/stored_quad.cuh"
#include "triaccel/kernels/cuda/tensor_core.cuh"
#include "triaccel/kernels/map_convolution_work.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kGroups = 2;  // of four warps, which take the steps of a block in turn
constexpr int kGroupThreads = 128;
constexpr int kMapThreads = kGroups * kGroupThreads;
constexpr int kRowsAtOnce = kMapThreads / 8;
constexpr int kTurns = kMapStages / kGroups;  // on their way at once: a step of each group
static_assert(kMapTile % kRowsAtOnce == 0 && kTurns >= 2);
constexpr int kSumPitch = kMapTile + 4;  // floats: rows of a matrix begin in different banks
constexpr int kTileSums = kMapTile * kSumPitch;

enum class Weights { AsTheyLie, Turned };  // [written][tap][read], or [read][tap][written]

/// 64 x 64 weights: [written][read], or where they are turned [read][written].
struct WeightTile {
  uint4 chunks[kMapTile * 8];
};

struct MapWork {
  MapProduct product;
  MapCut cut;
  FastDivide taps, tap_columns, columns, sample_pixels;

  MapWork(const MapProduct& of, const MapCut& how)
      : product(of),
        cut(how),
        taps(of.taps()),
        tap_columns(of.columns.taps),
        columns(of.columns.written),
        sample_pixels(std::int64_t{of.rows.written} * of.columns.written) {}
};

/// Row and chunk of what a thread copies: the same eighth of every row that is kRowsAtOnce further.
struct ThreadChunk {
  std::int32_t row = static_cast<std::int32_t>(threadIdx.x) / 8;
  std::int32_t chunk = static_cast<std::int32_t>(threadIdx.x) % 8;
};

/// What the samples of the block's tile have in `planes` planes of 64 channels, from `plane` on:
/// [plane][pixel][channel], and a row of zeros behind, which taps outside the map meet.
__device__ void copy_samples(const MapWork& work, const std::uint16_t* map, std::int32_t plane,
                             std::int32_t planes, uint4* to) {
  const ThreadChunk own;
  const MapProduct& product = work.product;
  const std::int64_t first = std::int64_t{blockIdx.y} * work.cut.seen;
  const std::int64_t all = product.pixels /
                           (std::int64_t{product.rows.written} * product.columns.written) *
                           product.rows.read * product.columns.read;
  for (std::int32_t row = own.row; row < work.cut.seen; row += kRowsAtOnce) {
    const bool live = first + row < all;
    const std::uint16_t* from =
        map + (live ? (first + row) * product.read_channels : 0) + plane * kMapTile + own.chunk * 8;
    for (std::int32_t i = 0; i < planes; ++i)
      copy_16_bytes(to + i * work.cut.seen * 8 + tile_chunk(row, own.chunk), from + i * kMapTile,
                    live);
  }
  if (threadIdx.x < 8) to[planes * work.cut.seen * 8 + threadIdx.x] = make_uint4(0, 0, 0, 0);
}

/// The weights of one tap and 64 channels that are read, for the block's 64 that are written.
template <Weights weights>
__device__ void copy_weights(const MapProduct& product, const std::uint16_t* weight,
                             std::int32_t plane, std::int32_t tap, WeightTile& to) {
  const ThreadChunk own;
  const std::int32_t written = static_cast<std::int32_t>(blockIdx.z) * kMapTile;
  const std::int32_t read = plane * kMapTile;
  const std::int32_t inner =
      weights == Weights::Turned ? product.written_channels : product.read_channels;
  const std::int64_t line = std::int64_t{product.taps()} * inner;
  const std::uint16_t* from = weight + std::int64_t{tap} * inner + own.chunk * 8 +
                              (weights == Weights::Turned ? (read + own.row) * line + written
                                                          : (written + own.row) * line + read);
#pragma unroll
  for (int k = 0; k < kMapTile / kRowsAtOnce; ++k)
    copy_16_bytes(to.chunks + tile_chunk(own.row + k * kRowsAtOnce, own.chunk),
                  from + k * kRowsAtOnce * line, true);
}

/// A pixel whose row of channels a lane gives for a matrix: where its first tap lies.
struct LanePixel {
  std::int32_t sample_row;   // the first of its sample among those that the tile sees
  std::int32_t row, column;  // may lie outside the map

  __device__ LanePixel(const MapWork& work, std::int32_t pixel) {
    const MapProduct& product = work.product;
    const FastDivide::Result in = work.sample_pixels(pixel);
    const FastDivide::Result at = work.columns(in.remainder);
    sample_row = in.quotient * product.rows.read * product.columns.read;
    row = at.quotient * product.rows.stride + product.rows.first;
    column = at.remainder * product.columns.stride + product.columns.first;
  }

  /// Among those that the tile sees; -1: outside the map.
  __device__ std::int32_t seen_at(const MapProduct& product, FastDivide::Result tap) const {
    const std::int32_t y = row + tap.quotient * product.rows.step;
    const std::int32_t x = column + tap.remainder * product.columns.step;
    const bool inside = (y >= 0) & (y < product.rows.read) & (x >= 0) & (x < product.columns.read);
    return inside ? sample_row + y * product.columns.read + x : -1;
  }
};

/// One step: sums[i][j] is D of 16 pixels and 8 channels. `rows`: what the lane's pixels see at the
/// step's tap.
template <Weights weights, typename Stored>
__device__ void multiply_step(const uint4* plane, const uint4* zeros, const std::int32_t (&rows)[2],
                              const WeightTile& tile, std::int32_t channel,
                              float (&sums)[2][4][4]) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x) % 32;
#pragma unroll
  for (int inner = 0; inner < kMapTile / 16; ++inner) {
    std::uint32_t a[2][4], b[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int32_t chunk = pixel_matrix(lane, 0, inner).chunk;
      load_matrices(a[i], rows[i] >= 0 ? plane + tile_chunk(rows[i], chunk) : zeros + chunk);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if constexpr (weights == Weights::Turned) {
        const TileRow at = turned_channel_matrix(lane, channel + 16 * j, inner);
        load_transposed(b[j], tile.chunks + tile_chunk(at.row, at.chunk));
      } else {
        const TileRow at = channel_matrix(lane, channel + 16 * j, inner);
        load_matrices(b[j], tile.chunks + tile_chunk(at.row, at.chunk));
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        multiply(Stored{}, sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  }
}

__device__ void meet_cluster(std::int32_t blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    return;
  }
#endif
  __syncthreads();
}

/// Adds the cluster's sums of its share of the tile's pixels, in the order of blocks and groups,
/// and writes them: a thread eight channels at a time.
template <typename Stored>
__device__ void write_share(const MapWork& work, const float* sums, std::uint16_t* output) {
  const std::int32_t blocks = work.cut.blocks, rows = kMapTile / blocks;
  const auto rank = static_cast<std::int32_t>(blockIdx.x);
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < rows * 8; i += kMapThreads) {
    const std::int32_t row = rank * rows + i / 8, chunk = i % 8;
    const std::int64_t pixel = std::int64_t{blockIdx.y} * kMapTile + row;
    if (pixel >= work.product.pixels) continue;
    float4 low = {}, high = {};
    for (std::int32_t block = 0; block < blocks; ++block) {
      const float* from = sums + row * kSumPitch + chunk * 8;
#if __CUDA_ARCH__ >= 900
      if (blocks > 1)
        from = static_cast<const float*>(
            __cluster_map_shared_rank(from, static_cast<unsigned>(block)));
#endif
#pragma unroll
      for (int group = 0; group < kGroups; ++group, from += kTileSums) {
        const float4 a = *reinterpret_cast<const float4*>(from);
        const float4 b = *reinterpret_cast<const float4*>(from + 4);
        low = {low.x + a.x, low.y + a.y, low.z + a.z, low.w + a.w};
        high = {high.x + b.x, high.y + b.y, high.z + b.z, high.w + b.w};
      }
    }
    __stwb(
        reinterpret_cast<uint4*>(output + pixel * work.product.written_channels +
                                 blockIdx.z * kMapTile + chunk * 8),
        make_uint4(rounded_pair(Stored{}, low.x, low.y), rounded_pair(Stored{}, low.z, low.w),
                   rounded_pair(Stored{}, high.x, high.y), rounded_pair(Stored{}, high.z, high.w)));
  }
}

/// Grid: (blocks of a cluster, tiles of pixels, tiles of channels). Reads the map once for each
/// tile of channels and the weights once for each tile of pixels, nearly all of it from the cache:
/// what counts here is how soon the first numbers arrive and how many are on their way.
template <Weights weights, typename Stored>
__global__ void __launch_bounds__(kMapThreads)
    map_kernel(const std::uint16_t* map, const std::uint16_t* weight, std::uint16_t* output,
               const __grid_constant__ MapWork work) {
  extern __shared__ uint4 shared[];
  const MapProduct& product = work.product;
  const MapCut& cut = work.cut;
  const StepRange range = steps_of(cut, static_cast<std::int32_t>(blockIdx.x));
  const std::int32_t first_plane = work.taps(range.begin).quotient;
  const std::int32_t planes = work.taps(range.end - 1).quotient - first_plane + 1;
  WeightTile* const tiles = reinterpret_cast<WeightTile*>(shared);
  uint4* const seen = shared + kMapStages * kMapTile * 8;
  const uint4* const zeros = seen + planes * cut.seen * 8;
  const auto tile_of = [&](std::int32_t turn, std::int32_t group) -> WeightTile& {
    return tiles[turn % kTurns * kGroups + group];
  };
  const auto fetch = [&](std::int32_t turn) {
#pragma unroll
    for (std::int32_t group = 0; group < kGroups; ++group) {
      const std::int32_t step = range.begin + turn * kGroups + group;
      if (step >= range.end) break;
      const FastDivide::Result at = work.taps(step);
      copy_weights<weights>(product, weight, at.quotient, at.remainder, tile_of(turn, group));
    }
    end_of_copies();
  };
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t group = thread / kGroupThreads, warp = thread % kGroupThreads / 32;
  const std::int32_t lane = thread % 32;
  const std::int32_t pixel = warp / 2 * 32, channel = warp % 2 * 32;
  const LanePixel pixels[2] = {LanePixel(work, pixel_matrix(lane, pixel, 0).row),
                               LanePixel(work, pixel_matrix(lane, pixel + 16, 0).row)};
  float sums[2][4][4] = {};
  wait_for_previous_kernel();

  copy_samples(work, map, first_plane, planes, seen);  // with the first weights
  for (std::int32_t turn = 0; turn < kTurns - 1; ++turn) fetch(turn);
  for (std::int32_t turn = 0; range.begin + turn * kGroups < range.end; ++turn) {
    wait_for_copies<kTurns - 2>();
    __syncthreads();  // this turn is here for all, and the tiles of the one before are read
    fetch(turn + kTurns - 1);
    const std::int32_t step = range.begin + turn * kGroups + group;
    if (step >= range.end) break;
    const FastDivide::Result at = work.taps(step);
    const FastDivide::Result tap = work.tap_columns(at.remainder);
    const std::int32_t rows[2] = {pixels[0].seen_at(product, tap), pixels[1].seen_at(product, tap)};
    multiply_step<weights, Stored>(seen + (at.quotient - first_plane) * cut.seen * 8, zeros, rows,
                                   tile_of(turn, group), channel, sums);
  }
  let_next_kernel_begin();

  wait_for_copies<0>();
  __syncthreads();
  float* const of_tiles = reinterpret_cast<float*>(shared);  // in the place of the weights
  float* const of_tile = of_tiles + group * kTileSums;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float* const to =
          of_tile + (pixel + 16 * i + lane / 4) * kSumPitch + channel + 8 * j + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = {sums[i][j][0], sums[i][j][1]};
      *reinterpret_cast<float2*>(to + 8 * kSumPitch) = {sums[i][j][2], sums[i][j][3]};
    }
  meet_cluster(cut.blocks);
  write_share<Stored>(work, of_tiles, output);
  if (cut.blocks > 1) meet_cluster(cut.blocks);  // the others have read this block's sums
}

template <Weights weights>
void run_product(std::string_view who, const MapProduct& product, FloatType type, const void* map,
                 const void* weight, void* output, cudaStream_t stream) {
  if (product.pixels == 0) return;
  static_assert(kGroups * kTileSums * sizeof(float) <= kMapStages * sizeof(WeightTile));
  const std::optional<MapCut> cut = cut_map_product(product);
  ensure(cut.has_value(), text(who, " got a shape that cut_map_product does not cut"));
  const auto bytes = static_cast<unsigned>(map_shared_bytes(*cut));
  const auto launch = [&]<typename Stored>(Stored) {
    const auto kernel = map_kernel<weights, Stored>;
    static_cast<void>(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(bytes)));
    launch_overlapped(
        who, kernel,
        {.grid = dim3(static_cast<unsigned>(cut->blocks), static_cast<unsigned>(cut->pixel_tiles),
                      static_cast<unsigned>(cut->channel_tiles)),
         .threads = dim3(kMapThreads),
         .shared_bytes = bytes,
         .cluster = static_cast<unsigned>(cut->blocks)},
        stream, static_cast<const std::uint16_t*>(map), static_cast<const std::uint16_t*>(weight),
        static_cast<std::uint16_t*>(output), MapWork(product, *cut));
  };
  with_operand_type(type, launch);
}

}  // namespace

bool has_map_convolution() {
  return code_is_for_sm_90() &&
         device_attribute("map_convolution", cudaDevAttrMaxSharedMemoryPerBlockOptin) >=
             kMostMapBytes;
}

void map_convolution(const MapConvolutionShape& shape, const void* map, const void* weight,
                     void* output, cudaStream_t stream) {
  run_product<Weights::AsTheyLie>("map_convolution", forward_product(shape), shape.type, map,
                                  weight, output, stream);
}

void map_input_gradient(const MapConvolutionShape& shape, const void* output_gradient,
                        const void* weight, void* input_gradient, cudaStream_t stream) {
  run_product<Weights::Turned>("map_input_gradient", gradient_product(shape), shape.type,
                               output_gradient, weight, input_gradient, stream);
}

}  // namespace triaccel::kernels::cuda
