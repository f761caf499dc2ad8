#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/norm/batch_norm.h"

namespace triaccel::kernels::cuda {

std::int64_t batch_norm_scratch_bytes(const NormMap&) { no_cuda("batch_norm"); }

void batch_norm_train(const NormForward&, const NormBatchStatistics&, void*, cudaStream_t) {
  no_cuda("batch_norm_train");
}

void batch_norm_infer(const NormForward&, NormKnownStatistics, cudaStream_t) {
  no_cuda("batch_norm_infer");
}

void batch_norm_backward(const NormBackward&, void*, cudaStream_t) {
  no_cuda("batch_norm_backward");
}

}  // namespace triaccel::kernels::cuda
