#include "triaccel/kernels/compression/channel_levels.h"

#include <cmath>

#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kChannelLanes = 32;  // channels of a block, neighbours where they come last
constexpr int kRowLanes = 32;      // rows that a block reads at once

__device__ void widen(float& low, float& high, float value_low, float value_high) {
  low = value_low < low ? value_low : low;
  high = value_high > high ? value_high : high;
}

template <typename Stored>
__global__ void __launch_bounds__(kChannelLanes* kRowLanes)
    level_kernel(const ChannelRows rows, const void* values, void* levelled, float* lowest,
                 float* range) {
  using Word = typename Stored::Word;
  __shared__ float lows[kRowLanes][kChannelLanes], highs[kRowLanes][kChannelLanes];
  const std::int64_t channel = std::int64_t{blockIdx.x} * kChannelLanes + threadIdx.x;
  const bool exists = channel < rows.channels;
  const Word* from = static_cast<const Word*>(values);
  float low = INFINITY, high = -INFINITY;
  if (exists)
    for (std::int64_t row = threadIdx.y; row < rows.rows; row += kRowLanes) {
      const float value = Stored::value(from[rows.element(channel, row)]);
      widen(low, high, value, value);
    }
  lows[threadIdx.y][threadIdx.x] = low;
  highs[threadIdx.y][threadIdx.x] = high;
  __syncthreads();
  if (!exists) return;
  for (int lane = 0; lane < kRowLanes; ++lane)  // the same in every row lane
    widen(low, high, lows[lane][threadIdx.x], highs[lane][threadIdx.x]);
  const ChannelLevel level(low, high);
  if (threadIdx.y == 0) {
    lowest[channel] = level.lowest;
    range[channel] = level.range;
  }
  Word* to = static_cast<Word*>(levelled);
  for (std::int64_t row = threadIdx.y; row < rows.rows; row += kRowLanes) {
    const std::int64_t element = rows.element(channel, row);
    to[element] =
        Stored::word(kernels::levelled(Stored::value(from[element]), level.lowest, level.inverse));
  }
}

constexpr int kWarp = 32;
constexpr int kWarpsOfBlock = 8;
constexpr unsigned kWholeWarp = 0xffffffffu;

/// Of channels whose many positions follow each other: a warp each, which reads them in order.
template <typename Stored>
__global__ void __launch_bounds__(kWarp* kWarpsOfBlock)
    level_row_kernel(std::int64_t rows, std::int64_t columns, const void* values, void* levelled,
                     float* lowest, float* range) {
  using Word = typename Stored::Word;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarpsOfBlock + threadIdx.y;
  if (row >= rows) return;
  const Word* from = static_cast<const Word*>(values) + row * columns;
  Word* to = static_cast<Word*>(levelled) + row * columns;
  float low = INFINITY, high = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < columns; i += kWarp) {
    const float value = Stored::value(from[i]);
    widen(low, high, value, value);
  }
  for (int other = kWarp / 2; other > 0; other /= 2)
    widen(low, high, __shfl_xor_sync(kWholeWarp, low, other),
          __shfl_xor_sync(kWholeWarp, high, other));
  const ChannelLevel level(low, high);
  if (threadIdx.x == 0) {
    lowest[row] = level.lowest;
    range[row] = level.range;
  }
  for (std::int64_t i = threadIdx.x; i < columns; i += kWarp)
    to[i] = Stored::word(kernels::levelled(Stored::value(from[i]), level.lowest, level.inverse));
}

}  // namespace

void level_channels(const MapsToLevel& maps, const void* values, void* levelled, float* lowest,
                    float* range, cudaStream_t stream) {
  if (maps.count == 0) return;
  const ChannelRows rows(maps);
  const bool follow = rows.channel_stride == rows.rows && rows.position_stride == 1;
  const dim3 threads(kChannelLanes, kRowLanes), warps(kWarp, kWarpsOfBlock);
  with_stored_type(maps.type, [&]<typename Stored>(Stored) {
    if (follow && rows.rows >= kWarp) {
      level_row_kernel<Stored><<<blocks_for(rows.channels, kWarpsOfBlock), warps, 0, stream>>>(
          rows.channels, rows.rows, values, levelled, lowest, range);
      return;
    }
    level_kernel<Stored><<<blocks_for(rows.channels, kChannelLanes), threads, 0, stream>>>(
        rows, values, levelled, lowest, range);
  });
  check_launch("level_channels");
}

}  // namespace triaccel::kernels::cuda
