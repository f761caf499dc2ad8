#pragma once

#include <cstdint>
#include <type_traits>

#include "triaccel/kernels/common/float_type_math.h"

// Several neighbours per memory access.
namespace triaccel::kernels::cuda {

/// Whether accesses of 16 bytes may start there; null may. A view into a larger tensor may lie
/// anywhere.
template <typename... Pointers>
TRIACCEL_HOST_DEVICE bool aligned_for_vectors(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// Neighbouring words that a thread moves at once, by default 16 bytes.
template <typename Word, int count = 16 / sizeof(Word)>
struct alignas(count * sizeof(Word) < 16 ? count * sizeof(Word) : 16) WordPack {
  static constexpr int kWords = count;
  Word words[count];
};

__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }

/// Four neighbours in one load, whatever they are stored as.
template <typename Stored>
__device__ float4 load4(const typename Stored::Word* from) {
  const auto quad = *reinterpret_cast<const WordPack<typename Stored::Word, 4>*>(from);
  return {Stored::value(quad.words[0]), Stored::value(quad.words[1]), Stored::value(quad.words[2]),
          Stored::value(quad.words[3])};
}

__device__ inline void store4(float* to, float4 value) { *reinterpret_cast<float4*>(to) = value; }

/// Two numbers rounded to nearest even by one instruction, the first one lowest. As Stored::word,
/// but for which NaN a NaN becomes.
template <typename Stored>
__device__ inline std::uint32_t rounded_pair(Stored, float low, float high) {
#if __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  if constexpr (std::is_same_v<Stored, StoredAs<FloatType::Bf16>>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return Stored::word(low) | std::uint32_t{Stored::word(high)} << 16;
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
