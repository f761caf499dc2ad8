#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "triaccel/base/host_device.h"

namespace triaccel {

/// The stream libtorch computes on now, on `device`: what our kernels are enqueued on, so that they
/// order with torch's own and are captured with them. Null in a build without CUDA.
cudaStream_t current_cuda_stream(const c10::Device& device);

/// Gives back the workspaces that libtorch keeps for cuBLAS and cuBLASLt on `stream`, 1 MiB each: a
/// run has streams of its own, and what it leaves would count against the budget of the next. Not
/// before what was captured with them is gone. In builds with CUDA only.
void release_workspaces(cudaStream_t stream);

/// On a GPU, makes a stream other than the default one the current stream of this thread until the
/// scope ends: only work on such a stream can be captured. Nothing on a CPU.
class [[nodiscard]] WorkStream {
 public:
  explicit WorkStream(c10::Device device);
  ~WorkStream();
  WorkStream(const WorkStream&) = delete;
  WorkStream& operator=(const WorkStream&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

}  // namespace triaccel
