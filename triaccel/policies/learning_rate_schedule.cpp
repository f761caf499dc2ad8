#include "triaccel/policies/learning_rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "triaccel/base/error.h"

namespace triaccel {

double learning_rate_at(const LearningRateSchedule& schedule, std::int64_t samples,
                        std::int64_t batch) {
  require(schedule.total_samples > 0, "learning_rate_at", "total_samples must be positive, got ",
          schedule.total_samples);
  // During warm-up the step counts as done: the first step must not have a rate of zero.
  const auto reached = static_cast<double>(samples + batch);
  const auto warmup = static_cast<double>(schedule.warmup_samples);
  if (reached < warmup) return schedule.peak * reached / warmup;
  const double rest = std::max(1.0, static_cast<double>(schedule.total_samples) - warmup);
  const double progress = std::clamp((static_cast<double>(samples) - warmup) / rest, 0.0, 1.0);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return schedule.peak * (schedule.final_share + (1 - schedule.final_share) * cosine);
}

}  // namespace triaccel
