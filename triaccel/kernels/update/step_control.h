#pragma once

#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/update/gradient_moments.h"

namespace triaccel::kernels {

/// What the gradients of this step decided about it. Lives in device memory: updates read it there,
/// so the host never waits to learn whether a step was clean.
struct StepControl {
  float gradient_multiplier = 1.0f;    // clipping factor / loss scale of this step; 0 when skipped
  float loss_scale = 1.0f;             // of the next backward pass
  std::int32_t skip = 0;               // 1: a gradient was not finite, and no update changes a bit
  std::int32_t clean_steps = 0;        // since the loss scale last changed
  std::int64_t applied_steps = 0;      // in the run, this one included: AdamW's t
  std::int64_t skipped_steps = 0;      // in the run
  std::int64_t consecutive_skips = 0;  // up to and including this step
  double gradient_norm = 0;            // over the finite elements, unscaled, before clipping
  // The first skipped step since the host last set both to -1: its number in the run, skipped steps
  // counted, from 1; and the last layer, in forward order, that was not finite in it. Backward runs
  // from the last layer to the first and carries an overflow along, so that is where it began.
  std::int64_t first_skipped_step = -1;
  std::int64_t first_skipped_layer = -1;
};
static_assert(sizeof(StepControl) == 64);

struct StepControlOptions {
  float max_norm = 0;                   // clip the gradient's 2-norm to this; 0: never
  bool dynamic_loss_scale = false;      // false: the loss scale stays as it is
  std::int32_t growth_interval = 2000;  // clean steps before the scale doubles
  float min_loss_scale = 1.0f;
  float max_loss_scale = 16777216.0f;  // 2^24
};

/// From the moments of all layers: skip when any element is not finite; else multiply gradients by
/// min(1, max_norm / (norm + 1e-6)) / loss_scale (the formula of torch's clip_grad_norm_). Then the
/// loss scale halves after an overflow and doubles after growth_interval clean steps.
namespace cpu {
void decide_step(StepControl* control, const LayerMoments* layers, std::int64_t layer_count,
                 StepControlOptions options);
}
namespace cuda {
void decide_step(StepControl* control, const LayerMoments* layers, std::int64_t layer_count,
                 StepControlOptions options, cudaStream_t stream);
}

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
