#include "triaccel/kernels/sgd.h"

#include "triaccel/kernels/cpu/chunk_loop.h"
#include "triaccel/kernels/sgd_math.h"

namespace triaccel::kernels::cpu {

void sgd_update(std::span<const TensorEntry> tensors, const float* learning_rates,
                const StepControl* control, SgdStep step) {
  if (control->skip) return;
  const float multiplier = control->gradient_multiplier;
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    float* __restrict p = list.parameter[range.index];
    float* __restrict v = list.state1[range.index];
    const float* __restrict g = static_cast<const float*>(list.gradient[range.index]);
    const float learning_rate = learning_rates[list.layer[range.index]];
    const SgdStep s = step;
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i)
      sgd_element(p[i], v[i], multiplier * g[i], learning_rate, s);
  });
}

}  // namespace triaccel::kernels::cpu
