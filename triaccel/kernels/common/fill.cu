#include "triaccel/kernels/common/fill.h"
#include "triaccel/kernels/common/launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kBlocksPerProcessor = 2048 / kThreads;  // as many threads as run at once

__global__ void __launch_bounds__(kThreads) fill_bytes_kernel(Fill fill) {
  fill_share(fill, std::int64_t{blockIdx.x} * kThreads + threadIdx.x,
             std::int64_t{gridDim.x} * kThreads);
}

}  // namespace

FillKernel fill_kernel(const Fill& fill) {
  const std::int64_t room =
      std::int64_t{kBlocksPerProcessor} * device_attribute("fill", cudaDevAttrMultiProcessorCount);
  const std::int64_t wanted = divide_up(fill.bytes, kThreads * std::int64_t{sizeof(FillVector)});
  return {.function = reinterpret_cast<const void*>(fill_bytes_kernel),
          .blocks = static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, room)),
          .threads = kThreads};
}

}  // namespace triaccel::kernels::cuda
