#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/loss_data/running_score.h"

namespace triaccel::kernels {

/// The best class so far. NaN never wins; a row without a number is never right.
struct Candidate {
  float value;
  std::int64_t index;
};

TRIACCEL_HOST_DEVICE inline Candidate no_candidate() { return {-INFINITY, INT64_MAX}; }

/// Of equal values the first index wins, whatever the order of comparison.
TRIACCEL_HOST_DEVICE inline Candidate better(Candidate a, Candidate b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

TRIACCEL_HOST_DEVICE inline void add_loss(RunningScore& score, float loss, std::int64_t samples) {
  if (fabsf(loss) <= FLT_MAX) {
    score.loss_sum += static_cast<double>(loss) * static_cast<double>(samples);
    score.samples += samples;
  } else {
    ++score.nonfinite_losses;
  }
}

}  // namespace triaccel::kernels
