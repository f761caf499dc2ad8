#include "triaccel/kernels/excitation/channel_gate.h"

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/common/channel_pack.cuh"
#include "triaccel/kernels/common/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

/// How a grid covers the maps: a block is `lanes` threads along the packs of a pixel times `rows`
/// along the pixels.
struct MapGrid {
  std::int64_t pixels;
  std::int32_t packs;   // of one pixel
  std::int32_t groups;  // of `lanes` packs
  std::int32_t chunks;  // of pixels
  std::int32_t lanes, rows;
  std::int64_t blocks;
};

constexpr std::int64_t kSumThreads = 512;
constexpr std::int64_t kSumBlocks = 264;  // two for each multiprocessor of a large chip
constexpr std::int64_t kGateThreads = 256;
constexpr int kGatePixels = 4;  // of a thread

/// One chunk: a block sees all pixels of its channels. Few images are shared among more blocks by
/// cutting their channels, down to the 32 bytes that memory moves at once.
MapGrid sum_grid(const ChannelMaps& maps, int channels_per_pack) {
  const std::int64_t packs = maps.channels / channels_per_pack;
  std::int64_t lanes = std::min(packs, std::int64_t{128});
  while (lanes > 2 && maps.images * divide_up(packs, lanes) < kSumBlocks) lanes = (lanes + 1) / 2;
  const auto groups = static_cast<std::int32_t>(divide_up(packs, lanes));
  return {.pixels = maps.pixels,
          .packs = static_cast<std::int32_t>(packs),
          .groups = groups,
          .chunks = 1,
          .lanes = static_cast<std::int32_t>(lanes),
          .rows = static_cast<std::int32_t>(std::min(kSumThreads / lanes, maps.pixels)),
          .blocks = maps.images * groups};
}

MapGrid gate_grid(const ChannelMaps& maps, int channels_per_pack) {
  const std::int64_t packs = maps.channels / channels_per_pack;
  const std::int64_t lanes = packs <= kGateThreads ? packs : kGateThreads / 2;
  const std::int64_t rows = std::min(kGateThreads / lanes, maps.pixels);
  const auto groups = static_cast<std::int32_t>(divide_up(packs, lanes));
  const auto chunks = static_cast<std::int32_t>(divide_up(maps.pixels, rows * kGatePixels));
  return {.pixels = maps.pixels,
          .packs = static_cast<std::int32_t>(packs),
          .groups = groups,
          .chunks = chunks,
          .lanes = static_cast<std::int32_t>(lanes),
          .rows = static_cast<std::int32_t>(rows),
          .blocks = maps.images * groups * chunks};
}

/// Image, pack and first pixel of this thread.
struct Place {
  std::int64_t image;
  std::int32_t pack;
  std::int64_t pixel;
};

__device__ Place locate(const MapGrid& grid) {
  const unsigned chunks = static_cast<unsigned>(grid.chunks);
  const unsigned groups = static_cast<unsigned>(grid.groups);
  const unsigned above = blockIdx.x / chunks;
  const auto group = static_cast<std::int32_t>(above % groups);
  const std::int64_t chunk = blockIdx.x % chunks;
  return {std::int64_t{above / groups}, group * grid.lanes + static_cast<std::int32_t>(threadIdx.x),
          chunk * grid.rows * kGatePixels + threadIdx.y};
}

template <typename Stored, int count, bool product>
__global__ void __launch_bounds__(kSumThreads)
    sum_kernel(PixelSum sum, const __grid_constant__ MapGrid grid) {
  using Pack = WordPack<typename Stored::Word, count>;
  const Place place = locate(grid);
  const bool real = place.pack < grid.packs;
  wait_for_previous_kernel();
  const auto* map = static_cast<const Pack*>(sum.map);
  const auto* factor = static_cast<const Pack*>(sum.factor);
  float mine[count] = {};
  if (real) {
    const std::int64_t first = place.image * grid.pixels * grid.packs + place.pack;
#pragma unroll 4
    for (std::int64_t pixel = place.pixel; pixel < grid.pixels; pixel += grid.rows) {
      const std::int64_t at = first + pixel * grid.packs;
      const Pack a = map[at];
      Pack b;
      if constexpr (product) b = factor[at];
#pragma unroll
      for (int k = 0; k < count; ++k) {
        const float value = Stored::value(a.words[k]);
        if constexpr (product)
          mine[k] += value * Stored::value(b.words[k]);
        else
          mine[k] += value;
      }
    }
  }
  __shared__ float rows[count][kSumThreads];
  const int thread = threadIdx.y * grid.lanes + threadIdx.x;
#pragma unroll
  for (int k = 0; k < count; ++k) rows[k][thread] = mine[k];
  __syncthreads();
  for (int left = grid.rows; left > 1;) {
    const int half = (left + 1) / 2;
    if (static_cast<int>(threadIdx.y) < left - half)
#pragma unroll
      for (int k = 0; k < count; ++k) rows[k][thread] += rows[k][thread + half * grid.lanes];
    __syncthreads();
    left = half;
  }
  if (threadIdx.y != 0 || !real) return;
  Pack result;
#pragma unroll
  for (int k = 0; k < count; ++k) result.words[k] = Stored::word(rows[k][thread] / sum.divisor);
  static_cast<Pack*>(sum.result)[place.image * grid.packs + place.pack] = result;
}

template <typename Stored, int count>
__global__ void __launch_bounds__(kGateThreads)
    gate_kernel(ChannelGate gate, const __grid_constant__ MapGrid grid) {
  using Pack = WordPack<typename Stored::Word, count>;
  const Place place = locate(grid);
  wait_for_previous_kernel();
  if (place.pack >= grid.packs) return;
  const std::int64_t channel = place.image * grid.packs + place.pack;
  float scale[count] = {}, shift[count] = {};
  if (gate.map != nullptr) {
    const Pack gates = static_cast<const Pack*>(gate.gate)[channel];
#pragma unroll
    for (int k = 0; k < count; ++k) scale[k] = Stored::value(gates.words[k]);
  }
  if (gate.offset != nullptr) {
    const Pack offsets = static_cast<const Pack*>(gate.offset)[channel];
#pragma unroll
    for (int k = 0; k < count; ++k) shift[k] = Stored::value(offsets.words[k]) / gate.divisor;
  }
  const std::int64_t first = place.image * grid.pixels * grid.packs + place.pack;
  const auto* map = static_cast<const Pack*>(gate.map);
  auto* result = static_cast<Pack*>(gate.result);
  Pack in[kGatePixels];
#pragma unroll
  for (int i = 0; i < kGatePixels; ++i) {
    const std::int64_t pixel = place.pixel + i * grid.rows;
    in[i] = map != nullptr && pixel < grid.pixels ? map[first + pixel * grid.packs] : Pack{};
  }
#pragma unroll
  for (int i = 0; i < kGatePixels; ++i) {
    const std::int64_t pixel = place.pixel + i * grid.rows;
    if (pixel >= grid.pixels) return;
    Pack out;
#pragma unroll
    for (int k = 0; k < count; ++k)
      out.words[k] = Stored::word(Stored::value(in[i].words[k]) * scale[k] + shift[k]);
    result[first + pixel * grid.packs] = out;
  }
}

LaunchShape shape_of(const MapGrid& grid) {
  return {.grid = unsigned(grid.blocks), .threads = {unsigned(grid.lanes), unsigned(grid.rows)}};
}

}  // namespace

void pixel_sum(const ChannelMaps& maps, const PixelSum& sum, cudaStream_t stream) {
  if (maps.images * maps.channels == 0) return;
  ensure(maps.pixels > 0, "a map has pixels");
  with_channel_pack(maps.type, maps.channels, aligned_for_vectors(sum.map, sum.factor, sum.result),
                    [&]<typename Stored, int count>(Stored, std::integral_constant<int, count>) {
                      const MapGrid grid = sum_grid(maps, count);
                      launch_overlapped("pixel_sum",
                                        sum.factor != nullptr ? sum_kernel<Stored, count, true>
                                                              : sum_kernel<Stored, count, false>,
                                        shape_of(grid), stream, sum, grid);
                    });
}

void channel_gate(const ChannelMaps& maps, const ChannelGate& gate, cudaStream_t stream) {
  if (maps.images * maps.channels * maps.pixels == 0) return;
  with_channel_pack(maps.type, maps.channels,
                    aligned_for_vectors(gate.map, gate.gate, gate.offset, gate.result),
                    [&]<typename Stored, int count>(Stored, std::integral_constant<int, count>) {
                      const MapGrid grid = gate_grid(maps, count);
                      launch_overlapped("channel_gate", gate_kernel<Stored, count>, shape_of(grid),
                                        stream, gate, grid);
                    });
}

}  // namespace triaccel::kernels::cuda
