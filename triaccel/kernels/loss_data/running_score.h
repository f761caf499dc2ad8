#pragma once

#include <cstdint>

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

}  // namespace triaccel::kernels
