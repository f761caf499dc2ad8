#include "triaccel/kernels/update/step_control.h"

#include "triaccel/kernels/update/step_control_math.h"

namespace triaccel::kernels::cpu {

void decide_step(StepControl* control, const LayerMoments* layers, std::int64_t layer_count,
                 StepControlOptions options) {
  StepTotals totals;
  for (std::int64_t i = 0; i < layer_count; ++i) add_layer(totals, layers[i], i);
  decide(*control, totals, options);
}

}  // namespace triaccel::kernels::cpu
