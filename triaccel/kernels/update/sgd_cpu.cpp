#include "triaccel/kernels/update/sgd.h"

#include "triaccel/kernels/common/chunk_loop_cpu.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels::cpu {

void sgd_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs, SgdStep step) {
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    const std::int32_t layer = list.layer[range.index];
    if (is_skipped(inputs, layer)) return;
    float* __restrict p = list.parameter[range.index];
    float* __restrict v = list.state1[range.index];
    const FloatType type = list.gradient_type[range.index];
    const float multiplier = gradient_multiplier(inputs, layer, type);
    const float learning_rate = inputs.learning_rates[layer];
    const SgdStep s = step;
    with_stored_type(type, [&]<typename Stored>(Stored) {
      const auto* __restrict g =
          static_cast<const typename Stored::Word*>(list.gradient[range.index]);
#pragma omp simd
      for (std::int64_t i = range.begin; i < range.end; ++i)
        sgd_element(p[i], v[i], multiplier * Stored::value(g[i]), learning_rate, s);
    });
  });
}

}  // namespace triaccel::kernels::cpu
