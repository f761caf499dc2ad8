#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/gradient_moments.h"
#include "triaccel/kernels/update/quantized_update.h"
#include "triaccel/kernels/update/restore_if_skipped.h"
#include "triaccel/kernels/update/sgd.h"
#include "triaccel/kernels/update/step_control.h"
#include "triaccel/kernels/update/weight_average.h"

namespace triaccel::kernels::cuda {

void sgd_update(std::span<const TensorEntry>, const UpdateInputs&, SgdStep, cudaStream_t) {
  no_cuda("sgd_update");
}

void adamw_update(std::span<const TensorEntry>, const UpdateInputs&, AdamWStep, cudaStream_t) {
  no_cuda("adamw_update");
}

void quantized_sgd_update(std::span<const TensorEntry>, const UpdateInputs&, SgdStep,
                          const StateNoise&, cudaStream_t) {
  no_cuda("quantized_sgd_update");
}

void quantized_adamw_update(std::span<const TensorEntry>, const UpdateInputs&, AdamWStep,
                            const StateNoise&, cudaStream_t) {
  no_cuda("quantized_adamw_update");
}

void average_weights(std::span<const TensorEntry>, const StepControl*, WeightAverageStep,
                     cudaStream_t) {
  no_cuda("average_weights");
}

void swap_weights(std::span<const TensorEntry>, cudaStream_t) { no_cuda("swap_weights"); }

void clear_moments(MomentsScales, LayerMoments*, std::int64_t, cudaStream_t) {
  no_cuda("clear_moments");
}

void add_gradient_moments(std::span<const TensorEntry>, MomentsScales, MomentsScratch,
                          LayerMoments*, cudaStream_t) {
  no_cuda("add_gradient_moments");
}

void decide_step(StepControl*, const LayerMoments*, std::int64_t, StepControlOptions,
                 cudaStream_t) {
  no_cuda("decide_step");
}

void restore_if_skipped(std::span<const TensorEntry>, const StepControl*, cudaStream_t) {
  no_cuda("restore_if_skipped");
}

void restore(std::span<const TensorEntry>, cudaStream_t) { no_cuda("restore"); }

void save_to_restore(std::span<const TensorEntry>, cudaStream_t) { no_cuda("save_to_restore"); }

}  // namespace triaccel::kernels::cuda
