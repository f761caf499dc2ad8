#pragma once

#include <cstdint>
#include <cstring>

// By hand rather than with CUB: sums of structs keep an order that the CPU oracle can repeat, and
// including CUB would add more to each compilation than these few functions.
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

/// The sum over all lanes, in each of them.
__device__ inline std::uint32_t sum_of_warp(std::uint32_t mine) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(~0u, mine);
#else
  for (int distance = 16; distance > 0; distance /= 2) mine += __shfl_xor_sync(~0u, mine, distance);
  return mine;
#endif
}

/// The maximum over all lanes, in each of them.
__device__ inline std::uint32_t maximum_of_warp(std::uint32_t mine) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, mine);
#else
  for (int distance = 16; distance > 0; distance /= 2)
    mine = max(mine, __shfl_xor_sync(~0u, mine, distance));
  return mine;
#endif
}

/// The values of lane 0 of all warps of kBlock threads, in thread 0. Call it once for each T in a
/// kernel: its shared memory is not guarded against a second turn.
template <int kBlock, typename T, typename Add>
__device__ T join_warps(T mine, Add add) {
  __shared__ T warps[kBlock / 32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int warp = 1; warp < kBlock / 32; ++warp) add(mine, warps[warp]);
  }
  return mine;
}

/// The values of all kBlock threads, in thread 0; once for each T, as join_warps.
template <int kBlock, typename T, typename Add>
__device__ T reduce_block(T mine, Add add) {
  return join_warps<kBlock>(reduce_warp(mine, add), add);
}

/// Whether this block is the last of `blocks` (thread 0 knows the number) to come here; if so, all
/// its threads see what the thread 0 of the others wrote before. `*ticket` is 0 before and after.
__device__ inline bool is_last_block(std::uint32_t* ticket, std::uint32_t blocks) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(ticket, blocks - 1) == blocks - 1;
    if (last) __threadfence();
  }
  __syncthreads();
  return last;
}

}  // namespace triaccel::kernels::cuda
