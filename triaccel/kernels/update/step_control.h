#pragma once

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

}  // namespace triaccel::kernels
