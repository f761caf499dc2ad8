#include <c10/cuda/CUDAStream.h>

#include "triaccel/device/current_stream.h"

namespace triaccel {

cudaStream_t current_cuda_stream(const c10::Device& device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

}  // namespace triaccel
