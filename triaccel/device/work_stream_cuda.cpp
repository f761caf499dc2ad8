#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>

#include "triaccel/device/work_stream.h"

namespace triaccel {

cudaStream_t current_cuda_stream(const c10::Device& device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

/// Waits at both ends, so that work on either side sees what was done on the other.
struct WorkStream::Guard {
  explicit Guard(c10::Device device)
      : stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {
    c10::cuda::device_synchronize();
  }
  ~Guard() {  // an error has been reported before, or will be
    if (cudaDeviceSynchronize() == cudaSuccess)
      release_workspaces(stream.current_stream().stream());
  }

  c10::cuda::CUDAStreamGuard stream;
};

WorkStream::WorkStream(c10::Device device) {
  if (device.is_cuda()) guard_ = std::make_unique<Guard>(device);
}

WorkStream::~WorkStream() = default;

void release_workspaces(cudaStream_t stream) {
  for (at::cuda::WorkspaceMapWithMutex* kept : {&at::cuda::cublas_handle_stream_to_workspace(),
                                                &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::unique_lock lock(kept->mutex);
    std::erase_if(kept->map, [&](const auto& entry) { return std::get<1>(entry.first) == stream; });
  }
}

}  // namespace triaccel
