#include "triaccel/kernels/update/adamw.h"

#include "triaccel/kernels/common/chunk_loop_cpu.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels::cpu {

void adamw_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                  AdamWStep step) {
  const AdamWFactors factors = adamw_factors(step, step_number(inputs));
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    const std::int32_t layer = list.layer[range.index];
    if (is_skipped(inputs, layer)) return;
    float* __restrict p = list.parameter[range.index];
    float* __restrict m = list.state1[range.index];
    float* __restrict v = list.state2[range.index];
    const FloatType type = list.gradient_type[range.index];
    const float multiplier = gradient_multiplier(inputs, layer, type);
    const float learning_rate = inputs.learning_rates[layer];
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
