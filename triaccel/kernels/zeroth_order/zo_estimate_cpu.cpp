#include "triaccel/kernels/zeroth_order/zo_estimate.h"

#include "triaccel/kernels/zeroth_order/zo_estimate_math.h"

namespace triaccel::kernels::cpu {

void zo_estimate(const ZoEstimate& estimate) {
  double sums[2 * kZoMostDirections] = {};
  const PartialScore* part = estimate.losses.parts;
  for (std::int32_t k = 0; k < zo_evaluations(estimate.rule); ++k)
    for (std::int64_t i = 0; i < estimate.losses.parts_of_evaluation; ++i)
      sums[k] += (part++)->loss;
  zo_finish(estimate, sums);
}

void zo_close(const ZoEstimate& estimate, const StepControl* control) {
  zo_close_step(estimate, control);
}

}  // namespace triaccel::kernels::cpu
