#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/common/vector_access.cuh"

namespace triaccel::kernels::cuda {

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

/// kernel(list, arguments...) for every list, one block per chunk, launched overlapped.
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
