#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string_view>

#include "triaccel/base/error.h"

namespace triaccel::int8::cuda {

inline void check_cuda(cudaError_t status, std::string_view who) {
  if (status != cudaSuccess)
    throw std::runtime_error(text("[", who, "] CUDA: ", cudaGetErrorString(status)));
}

/// Reports a launch that was refused; what fails while running appears at a later call.
inline void check_launch(std::string_view who) { check_cuda(cudaGetLastError(), who); }

}  // namespace triaccel::int8::cuda
