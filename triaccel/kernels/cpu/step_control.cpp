#include "triaccel/kernels/step_control.h"

#include "triaccel/kernels/step_control_math.h"

namespace triaccel::kernels::cpu {

void decide_step(StepControl* control, const LayerMoments* layers, std::int64_t layer_count,
                 StepControlOptions options) {
  decide(*control, layers, layer_count, options);
}

}  // namespace triaccel::kernels::cpu
