#pragma once

#include <cstdint>

namespace triaccel {

/// Linear warm-up, then a cosine to (almost) nothing. Indexed by samples, not steps: the schedule
/// is the same whatever batch sizes the controller chooses on the way.
struct LearningRateSchedule {
  double peak = 0.1;
  std::int64_t warmup_samples = 0;
  std::int64_t total_samples = 1;
  double final_share = 0;  // of the peak, at the end
};

/// The rate for a step that starts after `samples` trained samples and trains `batch` more.
double learning_rate_at(const LearningRateSchedule& schedule, std::int64_t samples,
                        std::int64_t batch);

}  // namespace triaccel
