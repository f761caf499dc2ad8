#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/loss_data/augment.h"
#include "triaccel/kernels/loss_data/cross_entropy.h"
#include "triaccel/kernels/loss_data/step_inputs.h"

namespace triaccel::kernels::cuda {

void place_step_inputs(const StepInputs&, const StepPlaces&, cudaStream_t) {
  no_cuda("place_step_inputs");
}

const void* step_inputs_kernel() { no_cuda("step_inputs_kernel"); }

void cross_entropy(RunningScore*, const ClassifiedBatch&, PartialScore*, cudaStream_t) {
  no_cuda("cross_entropy");
}

void augment(const ImageBatch&, Augmentation, bool, float*, cudaStream_t) { no_cuda("augment"); }

void gather_labels(const std::uint8_t*, std::int64_t, const std::int64_t*, std::int64_t,
                   std::int64_t*, cudaStream_t) {
  no_cuda("gather_labels");
}

}  // namespace triaccel::kernels::cuda
