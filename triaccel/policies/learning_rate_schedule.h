#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "triaccel/base/error.h"

namespace triaccel {

/// Linear warm-up, then cosine decay. Indexed by samples, not steps, so that the schedule does not
/// depend on the batch sizes chosen by the controller.
struct LearningRateSchedule {
  double peak = 0.1;
  std::int64_t warmup_samples = 0;
  std::int64_t total_samples = 1;
  double final_share = 0;  // fraction of the peak at the end
};

/// The learning rate of a step of `batch` samples that starts after `samples` samples.
inline double learning_rate_at(const LearningRateSchedule& schedule, std::int64_t samples,
                               std::int64_t batch) {
  require(schedule.total_samples > 0, "learning_rate_at", "total_samples must be positive, got ",
          schedule.total_samples);
  // Warm-up includes the step itself, so that the first step has a non-zero learning rate.
  const auto reached = static_cast<double>(samples + batch);
  const auto warmup = static_cast<double>(schedule.warmup_samples);
  if (reached < warmup) return schedule.peak * reached / warmup;
  const double rest = std::max(1.0, static_cast<double>(schedule.total_samples) - warmup);
  const double progress = std::clamp((static_cast<double>(samples) - warmup) / rest, 0.0, 1.0);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return schedule.peak * (schedule.final_share + (1 - schedule.final_share) * cosine);
}

}  // namespace triaccel
