#include "triaccel/kernels/precision/layer_scale.h"

#include "triaccel/kernels/common/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    scale_kernel(LayerScale* scales, const LayerMoments* layers, std::int64_t layer_count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  wait_for_previous_kernel();
  let_next_kernel_begin();
  if (i < layer_count) update_layer_scale(scales[i], layers[i]);
}

}  // namespace

void update_layer_scales(LayerScale* scales, const LayerMoments* layers, std::int64_t layer_count,
                         cudaStream_t stream) {
  if (layer_count == 0) return;
  launch_overlapped("update_layer_scales", scale_kernel,
                    {.grid = blocks_for(layer_count, kThreads), .threads = kThreads}, stream,
                    scales, layers, layer_count);
}

}  // namespace triaccel::kernels::cuda
