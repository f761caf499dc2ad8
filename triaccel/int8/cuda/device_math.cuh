#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "triaccel/int8/cuda/step_arguments.h"
#include "triaccel/int8/fixed_point.h"

namespace triaccel::int8::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

/// sum + Σ a_k · b_k over 16 bytes.
__device__ inline std::int32_t dot16(const int4& a, const int4& b, std::int32_t sum) {
  sum = __dp4a(a.x, b.x, sum);
  sum = __dp4a(a.y, b.y, sum);
  sum = __dp4a(a.z, b.z, sum);
  return __dp4a(a.w, b.w, sum);
}

__device__ inline int4 load16(const std::int8_t* from) {
  return *reinterpret_cast<const int4*>(from);
}

__device__ inline std::int32_t warp_sum(std::int32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kWholeWarp, value);
#else
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(kWholeWarp, value, apart);
  return value;
#endif
}

__device__ inline std::uint32_t warp_largest(std::uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kWholeWarp, value);
#else
  for (int apart = 16; apart > 0; apart /= 2) {
    const std::uint32_t other = __shfl_xor_sync(kWholeWarp, value, apart);
    value = value > other ? value : other;
  }
  return value;
#endif
}

__device__ inline std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

/// Whether a minus stream shares the shift of its plus stream.
__device__ inline bool takes_plus_shift(const StepArguments& step, std::int32_t stream) {
  return step.shared_shifts && stream == 1;
}

/// One sum as the next layer's input.
__device__ inline std::int8_t activation(std::int32_t sum, std::int32_t shift, bool relu) {
  return relu && sum < 0 ? std::int8_t{0} : requantise(sum, shift);
}

}  // namespace triaccel::int8::cuda
