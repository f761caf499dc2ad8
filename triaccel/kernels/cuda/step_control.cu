#include "triaccel/kernels/step_control.h"

#include "triaccel/kernels/cuda/launch.cuh"
#include "triaccel/kernels/step_control_math.h"

namespace triaccel::kernels::cuda {
namespace {

__global__ void decide_kernel(StepControl* control, const LayerMoments* layers,
                              std::int64_t layer_count, StepControlOptions options) {
  StepControl decided = *control;
  decide(decided, layers, layer_count, options);
  *control = decided;
}

}  // namespace

void decide_step(StepControl* control, const LayerMoments* layers, std::int64_t layer_count,
                 StepControlOptions options, cudaStream_t stream) {
  decide_kernel<<<1, 1, 0, stream>>>(control, layers, layer_count, options);
  check_launch("decide_step");
}

}  // namespace triaccel::kernels::cuda
