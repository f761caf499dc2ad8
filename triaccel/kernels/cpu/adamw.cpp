#include "triaccel/kernels/adamw.h"

#include "triaccel/kernels/adamw_math.h"
#include "triaccel/kernels/cpu/chunk_loop.h"
#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/layer_scale_math.h"

namespace triaccel::kernels::cpu {

void adamw_update(std::span<const TensorEntry> tensors, const float* learning_rates,
                  const StepControl* control, const LayerScale* scales, AdamWStep step) {
  if (control->skip) return;
  const AdamWFactors factors = adamw_factors(step, control->applied_steps);
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    float* __restrict p = list.parameter[range.index];
    float* __restrict m = list.state1[range.index];
    float* __restrict v = list.state2[range.index];
    const std::int32_t layer = list.layer[range.index];
    const FloatType type = list.gradient_type[range.index];
    const float multiplier = control->gradient_multiplier / carried_scale(scales, layer, type);
    const float learning_rate = learning_rates[layer];
    const AdamWFactors f = factors;
    with_stored_type(type, [&]<typename Stored>(Stored) {
      const auto* __restrict g =
          static_cast<const typename Stored::Word*>(list.gradient[range.index]);
#pragma omp simd
      for (std::int64_t i = range.begin; i < range.end; ++i)
        adamw_element(p[i], m[i], v[i], multiplier * Stored::value(g[i]), learning_rate, f);
    });
  });
}

}  // namespace triaccel::kernels::cpu
