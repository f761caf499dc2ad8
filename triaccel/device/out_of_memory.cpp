#include "triaccel/device/out_of_memory.h"

#include <algorithm>
#include <array>

namespace triaccel {

bool tells_of_memory(std::string_view what) {
  constexpr std::array<std::string_view, 6> signs = {
      "_STATUS_ALLOC_FAILED",  // cuBLAS, and cuDNN up to 8
      "ALLOCATION_FAILED",     // CUDNN_STATUS_INTERNAL_ERROR_{HOST,DEVICE}_ALLOCATION_FAILED
      "cudaErrorMemoryAllocation",
      "CUDA error: out of memory",
      "CUDA driver error: out of memory",
      "DefaultCPUAllocator: can't allocate memory"};
  return std::ranges::any_of(
      signs, [&](std::string_view sign) { return what.find(sign) != std::string_view::npos; });
}

}  // namespace triaccel
