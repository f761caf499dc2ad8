#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/cuda/device_math.cuh"
#include "triaccel/int8/cuda/launch_check.cuh"
#include "triaccel/int8/cuda/launches.h"

namespace triaccel::int8::cuda {
namespace {

// A block processes kPoints points of one sample and stream, kChannels channels at a time; a thread
// 8 points by 4 channels.
constexpr int kThreads = 256;
constexpr std::int32_t kPoints = 128;
constexpr std::int32_t kChannels = 64;
constexpr int kLines = 16;  // threads along either side of a tile
constexpr std::int32_t kLowest = -2147483647 - 1;

/// The work of a block.
struct PointTile {
  std::int32_t sample;
  std::int32_t stream;
  std::int32_t first;   // point
  std::int32_t points;  // valid ones
};

__device__ std::uint32_t packed(const std::int8_t (&values)[4]) {
  std::uint32_t word = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(values[j])) << (8 * j);
  return word;
}

/// The tile's rows of the layer's input, padded with zeros.
__device__ void load_rows(const StepArguments& step, std::int32_t l, const PointTile& tile,
                          std::int8_t* rows) {
  const DeviceLayer& layer = step.network.layers[l];
  const std::int32_t words = layer.panel_stride / 4;
  const std::int32_t streams = step.network.streams;
  const std::int32_t source = l == 0 ? tile.sample : tile.sample * streams + tile.stream;
  const std::int64_t base = (std::int64_t{source} * layer.positions + tile.first) * layer.depth;
  const std::int32_t* sums = nullptr;
  std::int32_t shift = 0;
  bool relu = false;
  if (l > 0) {
    sums = step.point_sums[(l - 1) % 2] + base;
    const std::int32_t from = takes_plus_shift(step, tile.stream) ? 0 : tile.stream;
    shift = requant_shift(step.largest[step.largest_at(l - 1, tile.sample, from)]);
    relu = step.network.layers[l - 1].relu;
  }
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < kPoints * words;
       i += kThreads) {
    const std::int32_t row = layer.by_patch_words(i);
    const std::int32_t column = (i - row * words) * 4;
    std::int8_t values[4] = {};
    if (row < tile.points) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (column + j >= layer.depth) break;
        const std::int64_t at = std::int64_t{row} * layer.depth + column + j;
        values[j] = l == 0 ? step.inputs[base + at] : activation(sums[at], shift, relu);
      }
    }
    *reinterpret_cast<std::uint32_t*>(rows + row * layer.patch_stride + column) = packed(values);
  }
}

__device__ void load_weights(const StepArguments& step, const DeviceLayer& layer,
                             std::int32_t stream, std::int32_t first, std::int8_t* weights) {
  const std::int8_t* panel = step.panel(layer, stream);
  const std::int32_t vectors = layer.panel_stride / 16;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < kChannels * vectors;
       i += kThreads) {
    const std::int32_t row = layer.by_patch_vectors(i);
    const std::int32_t column = (i - row * vectors) * 16;
    const std::int32_t channel = first + row;
    if (channel >= layer.out_channels) break;
    *reinterpret_cast<int4*>(weights + row * layer.patch_stride + column) =
        load16(panel + std::int64_t{channel} * layer.panel_stride + column);
  }
}

__global__ void __launch_bounds__(kThreads)
    point_kernel(const __grid_constant__ StepArguments step, std::int32_t l) {
  extern __shared__ int4 dynamic_memory[];
  __shared__ std::int32_t pooled[kChannels];
  const DeviceLayer& layer = step.network.layers[l];
  auto* const rows = reinterpret_cast<std::int8_t*>(dynamic_memory);
  std::int8_t* const weights = rows + kPoints * layer.patch_stride;
  PointTile tile;
  tile.sample = static_cast<std::int32_t>(blockIdx.z);
  tile.stream = static_cast<std::int32_t>(blockIdx.y);
  tile.first = static_cast<std::int32_t>(blockIdx.x) * kPoints;
  tile.points = layer.positions - tile.first < kPoints ? layer.positions - tile.first : kPoints;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t channel_line = thread % kLines;
  const std::int32_t point_line = thread / kLines;
  const std::int64_t target = std::int64_t{tile.sample} * step.network.streams + tile.stream;
  load_rows(step, l, tile, rows);
  std::uint32_t largest = 0;
  for (std::int32_t chunk = 0; chunk < layer.out_channels; chunk += kChannels) {
    __syncthreads();
    load_weights(step, layer, tile.stream, chunk, weights);
    if (thread < kChannels) pooled[thread] = kLowest;
    __syncthreads();
    std::int32_t sum[8][4] = {};
    for (std::int32_t k = 0; k < layer.panel_stride; k += 16) {
      int4 weight[4];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        weight[c] = load16(weights + (channel_line + kLines * c) * layer.patch_stride + k);
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        const int4 row = load16(rows + (point_line + kLines * r) * layer.patch_stride + k);
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[r][c] = dot16(row, weight[c], sum[r][c]);
      }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const std::int32_t channel = chunk + channel_line + kLines * c;
      if (channel >= layer.out_channels) break;
      std::int32_t most = kLowest;
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        const std::int32_t point = point_line + kLines * r;
        if (point >= tile.points) break;
        largest = larger(largest, magnitude(sum[r][c]));
        most = sum[r][c] > most ? sum[r][c] : most;
        if (layer.pooling == Pooling::None)
          step.point_sums[l % 2]
                         [(target * layer.positions + tile.first + point) * layer.out_channels +
                          channel] = sum[r][c];
      }
      if (layer.pooling != Pooling::None) atomicMax(&pooled[channel - chunk], most);
    }
    if (layer.pooling == Pooling::None) continue;
    __syncthreads();
    if (thread < kChannels && chunk + thread < layer.out_channels)
      atomicMax(&step.pooled[target * layer.out_channels + chunk + thread], pooled[thread]);
  }
  largest = warp_largest(largest);
  if (thread % 32 == 0 && largest > 0)
    atomicMax(&step.largest[step.largest_at(l, tile.sample, tile.stream)], largest);
}

}  // namespace

std::int32_t point_layer_bytes(const DeviceLayer& layer) {
  return (kPoints + kChannels) * layer.patch_stride;
}

void reserve_point_memory(std::int32_t bytes) {
  raise_shared_memory(point_kernel, bytes, "reserve_point_memory");
}

void launch_point_layer(const StepArguments& step, std::int32_t l, cudaStream_t stream) {
  const DeviceLayer& layer = step.network.layers[l];
  const dim3 grid(static_cast<unsigned>(divide_up(layer.positions, kPoints)),
                  static_cast<unsigned>(step.network.streams), static_cast<unsigned>(step.batch));
  point_kernel<<<grid, kThreads, static_cast<unsigned>(point_layer_bytes(layer)), stream>>>(step,
                                                                                            l);
  check_launch("launch_point_layer");
}

}  // namespace triaccel::int8::cuda
