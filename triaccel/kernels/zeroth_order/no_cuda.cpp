#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/zeroth_order/zo_estimate.h"
#include "triaccel/kernels/zeroth_order/zo_noise.h"

namespace triaccel::kernels::cuda {

void zo_move(std::span<const TensorEntry>, const ZoMove&, cudaStream_t) { no_cuda("zo_move"); }

void zo_estimate(const ZoEstimate&, cudaStream_t) { no_cuda("zo_estimate"); }

void zo_close(const ZoEstimate&, const StepControl*, cudaStream_t) { no_cuda("zo_close"); }

}  // namespace triaccel::kernels::cuda
