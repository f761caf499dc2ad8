#include <string_view>

#include "triaccel/base/error.h"
#include "triaccel/kernels/adamw.h"
#include "triaccel/kernels/augment.h"
#include "triaccel/kernels/gradient_moments.h"
#include "triaccel/kernels/layer_scale.h"
#include "triaccel/kernels/restore_if_skipped.h"
#include "triaccel/kernels/running_score.h"
#include "triaccel/kernels/scaled_cast.h"
#include "triaccel/kernels/sgd.h"
#include "triaccel/kernels/step_control.h"
#include "triaccel/kernels/weight_average.h"

// Stands in for every launcher of kernels/cuda where the build has no nvcc.
namespace triaccel::kernels::cuda {
namespace {

[[noreturn]] void no_cuda(std::string_view who) {
  throw UsageError(
      text("[", who, "] this build has no CUDA back end; configure with -DTRIACCEL_CUDA=ON"));
}

}  // namespace

void sgd_update(std::span<const TensorEntry>, const float*, const StepControl*, const LayerScale*,
                SgdStep, cudaStream_t) {
  no_cuda("sgd_update");
}

void adamw_update(std::span<const TensorEntry>, const float*, const StepControl*, const LayerScale*,
                  AdamWStep, cudaStream_t) {
  no_cuda("adamw_update");
}

void average_weights(std::span<const TensorEntry>, const StepControl*, WeightAverageStep,
                     cudaStream_t) {
  no_cuda("average_weights");
}

void swap_weights(std::span<const TensorEntry>, cudaStream_t) { no_cuda("swap_weights"); }

void gradient_moments(std::span<const TensorEntry>, const float*, const LayerScale*, ChunkMoments*,
                      LayerMoments*, std::int64_t, cudaStream_t) {
  no_cuda("gradient_moments");
}

void decide_step(StepControl*, const LayerMoments*, std::int64_t, StepControlOptions,
                 cudaStream_t) {
  no_cuda("decide_step");
}

void update_layer_scales(LayerScale*, const LayerMoments*, std::int64_t, cudaStream_t) {
  no_cuda("update_layer_scales");
}

void restore_if_skipped(std::span<const TensorEntry>, const StepControl*, cudaStream_t) {
  no_cuda("restore_if_skipped");
}

void scaled_cast(const CastArrays&, CastScale, cudaStream_t) { no_cuda("scaled_cast"); }

void augment(const ImageBatch&, Augmentation, bool, float*, cudaStream_t) { no_cuda("augment"); }

void gather_labels(const std::uint8_t*, std::int64_t, const std::int64_t*, std::int64_t,
                   std::int64_t*, cudaStream_t) {
  no_cuda("gather_labels");
}

void add_score(RunningScore*, const ScoredBatch&, cudaStream_t) { no_cuda("add_score"); }

}  // namespace triaccel::kernels::cuda
