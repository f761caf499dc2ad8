#include "triaccel/policies/zeroth_order/zeroth_order_alarm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr double kKeptAverages = 0.9;     // decay of the averages per interval
constexpr std::int64_t kFirstTicks = 20;  // warm-up of the averages
constexpr std::int64_t kHighTicks = 10;
constexpr double kRise = 0.05;       // minimum rise relative to the best loss
constexpr double kDeviations = 2.5;  // minimum rise in deviations of one interval
constexpr const char* kCounters = "loss_alarm/counters";
constexpr const char* kLosses = "loss_alarm/losses";

}  // namespace

std::optional<std::string> LossAlarm::after(double loss, std::int64_t step) {
  if (!std::isfinite(loss)) return {};
  ++ticks_;
  // Plain mean at first, exponential moving average later.
  const double share = std::max(1 - kKeptAverages, 1 / static_cast<double>(ticks_));
  mean_ += share * (loss - mean_);
  deviation_ += share * (std::abs(loss - mean_) - deviation_);
  if (ticks_ <= kFirstTicks || mean_ < best_) {
    best_ = mean_;
    best_step_ = step;
    high_ticks_ = 0;
    return {};
  }
  const bool high = mean_ > best_ + std::max(kRise * best_, kDeviations * deviation_);
  high_ticks_ = high ? high_ticks_ + 1 : 0;
  if (high_ticks_ < kHighTicks) return {};
  const double before = std::exchange(best_, mean_);  // a further rise is reported again
  high_ticks_ = 0;
  return text("training loss is rising: ", mean_, " at step ", step, ", was ", before, " at step ",
              std::exchange(best_step_, step));
}

std::vector<StateView> LossAlarm::state() const {
  return {number_state<std::int64_t>(kCounters, {ticks_, high_ticks_, best_step_}),
          number_state<double>(kLosses, {mean_, deviation_, best_})};
}

void LossAlarm::restore(const StateMap& saved) {
  const auto counters = numbers_from<std::int64_t>(saved, kCounters, 3);
  const auto losses = numbers_from<double>(saved, kLosses, 3);
  ticks_ = counters[0];
  high_ticks_ = counters[1];
  best_step_ = counters[2];
  mean_ = losses[0];
  deviation_ = losses[1];
  best_ = losses[2];
}

}  // namespace triaccel
