#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::kernels {

/// Loss and right predictions since the last reset, summed where the batches are computed so that
/// the host reads once an interval.
struct RunningScore {
  double loss_sum = 0;                // of loss * samples, over the finite losses
  std::int64_t samples = 0;           // behind loss_sum
  std::int64_t correct = 0;           // predictions that were right
  std::int64_t predictions = 0;       // rows with a label >= 0
  std::int64_t nonfinite_losses = 0;  // batches whose loss was infinite or not a number
  std::uint32_t finished_blocks = 0;  // of the kernel at work; between kernels 0
  std::uint32_t reserved = 0;         // makes 8 bytes
};
static_assert(sizeof(RunningScore) == 48);

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
