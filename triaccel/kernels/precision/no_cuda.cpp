#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/precision/layer_scale.h"
#include "triaccel/kernels/precision/scaled_cast.h"
#include "triaccel/kernels/precision/weight_copy.h"

namespace triaccel::kernels::cuda {

void update_layer_scales(LayerScale*, const LayerMoments*, std::int64_t, cudaStream_t) {
  no_cuda("update_layer_scales");
}

void copy_weights(std::span<const WeightCopyEntry>, cudaStream_t) { no_cuda("copy_weights"); }

void write_whole_gradient(const WholeGradient&, cudaStream_t) { no_cuda("write_whole_gradient"); }

void scaled_cast(const CastArrays&, CastScale, cudaStream_t) { no_cuda("scaled_cast"); }

}  // namespace triaccel::kernels::cuda
