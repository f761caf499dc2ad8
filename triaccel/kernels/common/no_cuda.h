#pragma once

#include <string_view>

#include "triaccel/base/error.h"

namespace triaccel::kernels::cuda {

/// What every launcher answers in a build without nvcc; see no_cuda.cpp in each folder.
[[noreturn]] inline void no_cuda(std::string_view who) {
  throw UsageError(
      text("[", who, "] this build has no CUDA back end; configure with -DTRIACCEL_CUDA=ON"));
}

}  // namespace triaccel::kernels::cuda
