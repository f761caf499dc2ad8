#include "triaccel/trainer/config/run_schedule.h"

#include <algorithm>
#include <cmath>

#include "triaccel/base/divide_up.h"

namespace triaccel {
namespace {

std::int64_t samples_in_run(const RunConfig& config, std::int64_t samples_per_epoch) {
  if (config.train.steps > 0) {
    // The last step of an epoch is a short one.
    const std::int64_t batch =
        std::min(config.train.batch * config.train.accumulate, samples_per_epoch);
    const std::int64_t steps_per_epoch = divide_up(samples_per_epoch, batch);
    return config.train.steps / steps_per_epoch * samples_per_epoch +
           config.train.steps % steps_per_epoch * batch;
  }
  return std::max<std::int64_t>(
      1, std::llround(config.train.epochs * static_cast<double>(samples_per_epoch)));
}

}  // namespace

LearningRateSchedule schedule_of(const RunConfig& config, std::int64_t samples_per_epoch) {
  const std::int64_t total = samples_in_run(config, samples_per_epoch);
  const double asked_for = config.train.warmup_epochs;
  const std::int64_t warmup =
      asked_for < 0 ? std::min(5 * samples_per_epoch, (total + 5) / 6)
                    : std::llround(asked_for * static_cast<double>(samples_per_epoch));
  return {.peak = config.train.lr, .warmup_samples = warmup, .total_samples = total};
}

double zeroth_order_rate_at(const RunConfig& config, double epoch) {
  const RunConfig::ZerothOrder& zeroth = config.zeroth_order;
  return zeroth.lr * std::pow(zeroth.decay, std::floor(epoch / zeroth.decay_epochs));
}

}  // namespace triaccel
