#include "triaccel/kernels/adamw.h"

#include "triaccel/kernels/adamw_math.h"
#include "triaccel/kernels/cpu/chunk_loop.h"

namespace triaccel::kernels::cpu {

void adamw_update(std::span<const TensorEntry> tensors, const float* learning_rates,
                  const StepControl* control, AdamWStep step) {
  if (control->skip) return;
  const float multiplier = control->gradient_multiplier;
  const AdamWFactors factors = adamw_factors(step, control->applied_steps);
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    float* __restrict p = list.parameter[range.index];
    float* __restrict m = list.state1[range.index];
    float* __restrict v = list.state2[range.index];
    const float* __restrict g = static_cast<const float*>(list.gradient[range.index]);
    const float learning_rate = learning_rates[list.layer[range.index]];
    const AdamWFactors f = factors;
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i)
      adamw_element(p[i], m[i], v[i], multiplier * g[i], learning_rate, f);
  });
}

}  // namespace triaccel::kernels::cpu
