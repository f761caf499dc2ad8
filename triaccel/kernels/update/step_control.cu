#include "triaccel/kernels/update/step_control.h"

#include "triaccel/kernels/common/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

/// One warp, so that the layers' moments arrive side by side instead of one after the other; the
/// order of the sum depends on the number of layers alone.
__global__ void __launch_bounds__(32)
    decide_kernel(StepControl* control, const LayerMoments* layers, std::int64_t layer_count,
                  StepControlOptions options) {
  wait_for_previous_kernel();
  let_next_kernel_begin();
  StepTotals totals;
  for (std::int64_t i = threadIdx.x; i < layer_count; i += 32) add_layer(totals, layers[i], i);
  for (int distance = 16; distance > 0; distance /= 2) {
    totals.sum_of_squares += __shfl_down_sync(~0u, totals.sum_of_squares, distance);
    const std::int64_t other = __shfl_down_sync(~0u, totals.last_nonfinite_layer, distance);
    if (other > totals.last_nonfinite_layer) totals.last_nonfinite_layer = other;
  }
  if (threadIdx.x != 0) return;
  StepControl decided = *control;
  decide(decided, totals, options);
  *control = decided;
}

}  // namespace

void decide_step(StepControl* control, const LayerMoments* layers, std::int64_t layer_count,
                 StepControlOptions options, cudaStream_t stream) {
  launch_overlapped("decide_step", decide_kernel, {.grid = 1, .threads = 32}, stream, control,
                    layers, layer_count, options);
}

}  // namespace triaccel::kernels::cuda
