#include "triaccel/kernels/layer_scale.h"

#include "triaccel/kernels/cuda/launch.cuh"
#include "triaccel/kernels/layer_scale_math.h"

namespace triaccel::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    scale_kernel(LayerScale* scales, const LayerMoments* layers, std::int64_t layer_count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < layer_count) update_layer_scale(scales[i], layers[i]);
}

}  // namespace

void update_layer_scales(LayerScale* scales, const LayerMoments* layers, std::int64_t layer_count,
                         cudaStream_t stream) {
  if (layer_count == 0) return;
  scale_kernel<<<blocks_for(layer_count, kThreads), kThreads, 0, stream>>>(scales, layers,
                                                                           layer_count);
  check_launch("update_layer_scales");
}

}  // namespace triaccel::kernels::cuda
