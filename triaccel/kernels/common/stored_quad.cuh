#pragma once

#include <cstdint>

#include "triaccel/kernels/common/float_type_math.h"

// Decoded numbers on their way to memory.
namespace triaccel::kernels::cuda {

/// Two numbers rounded to nearest even by one instruction, the first one lowest. As Stored::word,
/// but for which NaN a NaN becomes.
__device__ inline std::uint32_t rounded_pair(StoredAs<FloatType::Bf16>, float low, float high) {
#if __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return float_to_bf16(low) | std::uint32_t{float_to_bf16(high)} << 16;
#endif
}

__device__ inline std::uint32_t rounded_pair(StoredAs<FloatType::F16>, float low, float high) {
#if __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return float_to_f16(low) | std::uint32_t{float_to_f16(high)} << 16;
#endif
}

template <typename Stored>
__device__ inline void store_quad(typename Stored::Word* to, const float (&quad)[4]) {
  if constexpr (sizeof(typename Stored::Word) == 4)
    __stwb(reinterpret_cast<float4*>(to), make_float4(quad[0], quad[1], quad[2], quad[3]));
  else
    __stwb(reinterpret_cast<uint2*>(to), make_uint2(rounded_pair(Stored{}, quad[0], quad[1]),
                                                    rounded_pair(Stored{}, quad[2], quad[3])));
}

}  // namespace triaccel::kernels::cuda
