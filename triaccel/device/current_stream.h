#pragma once

#include <c10/core/Device.h>

typedef struct CUstream_st* cudaStream_t;  // keeps cuda_runtime.h out of C++ callers

namespace triaccel {

/// The stream libtorch computes on now, on `device`: what our kernels are enqueued on, so that they
/// order with torch's own and are captured with them. Null in a build without CUDA.
cudaStream_t current_cuda_stream(const c10::Device& device);

}  // namespace triaccel
