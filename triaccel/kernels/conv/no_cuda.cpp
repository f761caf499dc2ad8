#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/conv/depthwise.h"
#include "triaccel/kernels/conv/max_pool.h"
#include "triaccel/kernels/conv/stem_convolution.h"

namespace triaccel::kernels::cuda {

void depthwise_forward(const DepthwiseShape&, const void*, const float*, void*, cudaStream_t) {
  no_cuda("depthwise_forward");
}

void depthwise_input_gradient(const DepthwiseShape&, const void*, const float*, void*,
                              cudaStream_t) {
  no_cuda("depthwise_input_gradient");
}

void depthwise_weight_gradient(const DepthwiseShape&, const void*, const void*, float*, float*,
                               cudaStream_t) {
  no_cuda("depthwise_weight_gradient");
}

void max_pool(const PoolShape&, const void*, void*, std::uint8_t*, cudaStream_t) {
  no_cuda("max_pool");
}

void max_pool_gradient(const PoolShape&, const void*, const void*, const std::uint8_t*, void*,
                       cudaStream_t) {
  no_cuda("max_pool_gradient");
}

bool has_stem_convolution() { return false; }

void stem_convolution(const StemConvolutionShape&, const void*, const float*, void*, cudaStream_t) {
  no_cuda("stem_convolution");
}

void image_weight_gradient(const StemConvolutionShape&, const void*, const void*, float*, float*,
                           cudaStream_t) {
  no_cuda("image_weight_gradient");
}

}  // namespace triaccel::kernels::cuda
