#include "triaccel/kernels/loss_data/step_inputs.h"

#include <algorithm>

#include "triaccel/kernels/loss_data/step_inputs_math.h"

namespace triaccel::kernels::cpu {

void place_step_inputs(const StepInputs& inputs, const StepPlaces& places) {
  const std::int64_t most = std::max(places.samples, places.layers);
  for (std::int64_t i = 0; i < most; ++i) place_one(inputs, places, i);
}

}  // namespace triaccel::kernels::cpu
