#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "triaccel/device/stream_workspaces.h"
#include "triaccel/device/work_stream.h"

namespace triaccel {

/// Waits at both ends, so that work on either side sees what was done on the other.
struct WorkStream::Guard {
  explicit Guard(c10::Device device)
      : stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {
    c10::cuda::device_synchronize();
  }
  ~Guard() {  // an error has been reported before, or will be
    if (cudaDeviceSynchronize() == cudaSuccess) drop_workspaces(stream.current_stream().stream());
  }

  c10::cuda::CUDAStreamGuard stream;
};

WorkStream::WorkStream(c10::Device device) {
  if (device.is_cuda()) guard_ = std::make_unique<Guard>(device);
}

WorkStream::~WorkStream() = default;

}  // namespace triaccel
