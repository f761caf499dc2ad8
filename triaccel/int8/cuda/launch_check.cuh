#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "triaccel/base/error.h"

namespace triaccel::int8::cuda {

inline void check_cuda(cudaError_t status, std::string_view who) {
  if (status != cudaSuccess)
    throw std::runtime_error(text("[", who, "] CUDA: ", cudaGetErrorString(status)));
}

/// Reports launch errors; asynchronous errors appear at a later call.
inline void check_launch(std::string_view who) { check_cuda(cudaGetLastError(), who); }

/// Raises the shared-memory limit of a kernel; never lowers it, since networks of several sizes may
/// coexist.
template <typename Kernel>
void raise_shared_memory(Kernel* kernel, std::int32_t bytes, std::string_view who) {
  cudaFuncAttributes now = {};
  check_cuda(cudaFuncGetAttributes(&now, kernel), who);
  if (bytes <= now.maxDynamicSharedSizeBytes) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), who);
}

}  // namespace triaccel::int8::cuda
