#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels::cuda {

/// float4 needs addresses that are multiples of 16; a view into a larger tensor may lie anywhere.
template <typename... Pointers>
__device__ bool aligned_for_vectors(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// This thread's share of a chunk: vector_body(i) for elements i..i+3 where the memory is aligned
/// and four are left, else scalar_body(i) for one. Neighbouring threads take neighbouring elements.
template <typename VectorBody, typename ScalarBody>
__device__ void for_each_element(ChunkRange range, bool aligned, VectorBody vector_body,
                                 ScalarBody scalar_body) {
  constexpr int step = kThreads * 4;
  if (aligned && range.end - range.begin == kChunk) {  // no conditions between loads: all at once
#pragma unroll
    for (int offset = 0; offset < kChunk; offset += step)
      vector_body(range.begin + offset + threadIdx.x * 4);
    return;
  }
#pragma unroll
  for (int offset = 0; offset < kChunk; offset += step) {
    const std::int64_t i = range.begin + offset + threadIdx.x * 4;
    if (aligned && i + 4 <= range.end) {
      vector_body(i);
    } else {
      for (std::int64_t j = i; j < i + 4 && j < range.end; ++j) scalar_body(j);
    }
  }
}

__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }

/// Four neighbours in one load, whatever they are stored as.
template <typename Stored>
__device__ float4 load4(const typename Stored::Word* from) {
  struct alignas(4 * sizeof(*from)) Quad {
    typename Stored::Word words[4];
  };
  const Quad quad = *reinterpret_cast<const Quad*>(from);
  return {Stored::value(quad.words[0]), Stored::value(quad.words[1]), Stored::value(quad.words[2]),
          Stored::value(quad.words[3])};
}

__device__ inline void store4(float* to, float4 value) { *reinterpret_cast<float4*>(to) = value; }

/// kernel(list, arguments...) for every list, one block a chunk, launched overlapped.
template <typename... Parameters, typename... Arguments>
void launch_lists(std::string_view who, std::span<const TensorEntry> tensors,
                  void (*kernel)(Parameters...), cudaStream_t stream,
                  const Arguments&... arguments) {
  for_each_list(tensors, [&](const TensorList& list, std::int32_t chunks, std::int64_t) {
    launch_overlapped(who, kernel, {.grid = unsigned(chunks), .threads = kThreads}, stream, list,
                      arguments...);
  });
}

}  // namespace triaccel::kernels::cuda
