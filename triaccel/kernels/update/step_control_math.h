#pragma once

#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel::kernels {

TRIACCEL_HOST_DEVICE inline void update_loss_scale(StepControl& control,
                                                   const StepControlOptions& options) {
  if (control.skip) {
    const float halved = control.loss_scale * 0.5f;
    control.loss_scale = halved > options.min_loss_scale ? halved : options.min_loss_scale;
    control.clean_steps = 0;
  } else if (++control.clean_steps >= options.growth_interval) {
    const float doubled = control.loss_scale * 2.0f;
    control.loss_scale = doubled < options.max_loss_scale ? doubled : options.max_loss_scale;
    control.clean_steps = 0;
  }
}

/// What decide() needs to know of all layers together.
struct StepTotals {
  double sum_of_squares = 0;
  std::int64_t last_nonfinite_layer = -1;
};

TRIACCEL_HOST_DEVICE inline void add_layer(StepTotals& totals, const LayerMoments& layer,
                                           std::int64_t index) {
  totals.sum_of_squares += layer.sum_of_squares;
  if (layer.nonfinite > 0 && index > totals.last_nonfinite_layer)
    totals.last_nonfinite_layer = index;
}

TRIACCEL_HOST_DEVICE inline void decide(StepControl& control, const StepTotals& totals,
                                        const StepControlOptions& options) {
  control.gradient_norm = sqrt(totals.sum_of_squares);
  control.skip = totals.last_nonfinite_layer >= 0 ? 1 : 0;
  if (control.skip) {
    control.gradient_multiplier = 0;
    ++control.skipped_steps;
    ++control.consecutive_skips;
    if (control.first_skipped_step < 0) {
      control.first_skipped_step = control.applied_steps + control.skipped_steps;
      control.first_skipped_layer = totals.last_nonfinite_layer;
    }
  } else {
    const double clip =
        options.max_norm > 0 ? double{options.max_norm} / (control.gradient_norm + 1e-6) : 1.0;
    control.gradient_multiplier =
        static_cast<float>((clip < 1.0 ? clip : 1.0) / double{control.loss_scale});
    ++control.applied_steps;
    control.consecutive_skips = 0;
  }
  if (options.dynamic_loss_scale) update_loss_scale(control, options);
}

}  // namespace triaccel::kernels
