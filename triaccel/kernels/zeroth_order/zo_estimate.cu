#include "triaccel/kernels/zeroth_order/zo_estimate.h"

#include "triaccel/kernels/common/block_reduce.cuh"
#include "triaccel/kernels/common/launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kWarps = 8;

/// A warp per evaluation; the order of its sum depends on the number of parts alone.
__global__ void __launch_bounds__(32 * kWarps)
    estimate_kernel(const __grid_constant__ ZoEstimate estimate) {
  extern __shared__ double sums[];
  const int lane = threadIdx.x % 32;
  const std::int32_t evaluations = zo_evaluations(estimate.rule);
  for (std::int32_t k = threadIdx.x / 32; k < evaluations; k += kWarps) {
    const PartialScore* parts = estimate.losses.parts + k * estimate.losses.parts_of_evaluation;
    double sum = 0;
    for (std::int64_t i = lane; i < estimate.losses.parts_of_evaluation; i += 32)
      sum += parts[i].loss;
    sum = reduce_warp(sum, [](double& all, double part) { all += part; });
    if (lane == 0) sums[k] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) zo_finish(estimate, sums);
}

__global__ void close_kernel(const __grid_constant__ ZoEstimate estimate,
                             const StepControl* control) {
  zo_close_step(estimate, control);
}

}  // namespace

void zo_estimate(const ZoEstimate& estimate, cudaStream_t stream) {
  const auto bytes = static_cast<unsigned>(zo_evaluations(estimate.rule) * sizeof(double));
  estimate_kernel<<<1, 32 * kWarps, bytes, stream>>>(estimate);
  check_launch("zo_estimate");
}

void zo_close(const ZoEstimate& estimate, const StepControl* control, cudaStream_t stream) {
  close_kernel<<<1, 1, 0, stream>>>(estimate, control);
  check_launch("zo_close");
}

}  // namespace triaccel::kernels::cuda
