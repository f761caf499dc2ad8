#include "triaccel/kernels/precision/layer_scale.h"

#include "triaccel/kernels/precision/layer_scale_math.h"

namespace triaccel::kernels::cpu {

void update_layer_scales(LayerScale* scales, const LayerMoments* layers, std::int64_t layer_count) {
  for (std::int64_t i = 0; i < layer_count; ++i) update_layer_scale(scales[i], layers[i]);
}

}  // namespace triaccel::kernels::cpu
