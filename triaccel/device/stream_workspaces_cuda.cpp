#include "triaccel/device/stream_workspaces.h"

#include <ATen/cuda/CUDAContextLight.h>

#include <mutex>

namespace triaccel {

void drop_workspaces(cudaStream_t stream) {
  for (at::cuda::WorkspaceMapWithMutex* kept : {&at::cuda::cublas_handle_stream_to_workspace(),
                                                &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::unique_lock lock(kept->mutex);
    std::erase_if(kept->map, [&](const auto& entry) { return std::get<1>(entry.first) == stream; });
  }
}

}  // namespace triaccel
