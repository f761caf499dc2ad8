#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"

namespace triaccel::kernels::cuda {

inline constexpr int kThreads = 256;

/// Enough blocks for `count` work items; kernels that stride over the grid may be given fewer.
inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>(divide_up(count, per_block));
}

/// Reports a launch that was refused; what fails while running appears at a later call.
inline void check_launch(std::string_view who) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaErrorMemoryAllocation)  // for the code of a kernel that runs for the first time
    throw OutOfMemory(text("[", who, "] CUDA: ", cudaGetErrorString(status)));
  if (status != cudaSuccess)
    throw std::runtime_error(text("[", who, "] CUDA: ", cudaGetErrorString(status)));
}

/// Of the current device.
inline int device_attribute(std::string_view who, cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  static_cast<void>(cudaGetDevice(&device));
  static_cast<void>(cudaDeviceGetAttribute(&value, attribute, device));
  check_launch(who);
  return value;
}

}  // namespace triaccel::kernels::cuda
