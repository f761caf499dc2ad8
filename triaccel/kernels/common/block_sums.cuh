#pragma once

#include <cstdint>
#include <string_view>

#include "triaccel/kernels/common/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {

/// What many blocks have each left of the same numbers, [block][number].
struct BlockSums {
  const float* numbers;
  std::int64_t blocks;
  std::int64_t count;  // of each block
};

inline constexpr int kAddLanes = 32, kAddRows = 16;

/// Each row of threads adds every sixteenth block, in the same order every time.
template <typename Place>
__global__ void __launch_bounds__(kAddLanes* kAddRows)
    add_blocks_kernel(BlockSums sums, float* totals, Place place) {
  __shared__ float rows[kAddRows][kAddLanes];
  const std::int64_t i = std::int64_t{blockIdx.x} * kAddLanes + threadIdx.x;
  float sum = 0;
  wait_for_previous_kernel();
  if (i < sums.count) {
#pragma unroll 8
    for (std::int64_t block = threadIdx.y; block < sums.blocks; block += kAddRows)
      sum += sums.numbers[block * sums.count + i];
  }
  rows[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || i >= sums.count) return;
#pragma unroll
  for (int row = 1; row < kAddRows; ++row) sum += rows[row][threadIdx.x];
  const std::int64_t to = place(i);
  if (to >= 0) totals[to] = sum;
}

/// totals[place(i)] = number i summed over all blocks; where place(i) is negative it goes nowhere.
/// `place` is a function of the device.
template <typename Place>
void add_blocks(std::string_view who, const BlockSums& sums, float* totals, const Place& place,
                cudaStream_t stream) {
  launch_overlapped(
      who, add_blocks_kernel<Place>,
      {.grid = blocks_for(sums.count, kAddLanes), .threads = dim3(kAddLanes, kAddRows)}, stream,
      sums, totals, place);
}

}  // namespace triaccel::kernels::cuda
