#pragma once

#include <cstdint>
#include <cstring>

namespace triaccel::kernels::cuda {

/// `mine` of the lane `distance` above; a struct is moved word by word.
template <typename T>
__device__ T shuffle_down(const T& mine, int distance) {
  constexpr int words = sizeof(T) / sizeof(std::uint32_t);
  static_assert(words * sizeof(std::uint32_t) == sizeof(T));
  std::uint32_t word[words];
  memcpy(word, &mine, sizeof mine);
#pragma unroll
  for (int i = 0; i < words; ++i) word[i] = __shfl_down_sync(~0u, word[i], distance);
  T other;
  memcpy(&other, word, sizeof other);
  return other;
}

/// The values of all lanes, in lane 0; add(all, part) in the same order every time.
template <typename T, typename Add>
__device__ T reduce_warp(T mine, Add add) {
  for (int distance = 16; distance > 0; distance /= 2) add(mine, shuffle_down(mine, distance));
  return mine;
}

/// The values of all kBlock threads, in thread 0. Call it once for each T in a kernel: its shared
/// memory is not guarded against a second turn.
template <int kBlock, typename T, typename Add>
__device__ T reduce_block(T mine, Add add) {
  __shared__ T warps[kBlock / 32];
  mine = reduce_warp(mine, add);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int warp = 1; warp < kBlock / 32; ++warp) add(mine, warps[warp]);
  return mine;
}

/// Whether this block is the last of `blocks` (thread 0 knows the number) to come here; if so, all
/// its threads see what the thread 0 of the others wrote before. `*ticket` is 0 before and after.
__device__ inline bool is_last_block(std::uint32_t* ticket, std::uint32_t blocks) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(ticket, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

}  // namespace triaccel::kernels::cuda
