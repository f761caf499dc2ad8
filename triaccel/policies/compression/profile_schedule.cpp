#include "triaccel/policies/compression/profile_schedule.h"

#include <algorithm>
#include <utility>

namespace triaccel {
namespace {

constexpr double kLittleNoise = 0.5;    // of the target
constexpr std::int64_t kYoung = 20;     // parts of `every`
constexpr std::int64_t kLeastGap = 16;  // steps, where `every` is not less

}  // namespace

ProfileSchedule::ProfileSchedule(std::int64_t every)
    : every_(every), first_(std::min(every, std::max(kLeastGap, every / kYoung))) {}

void ProfileSchedule::start(std::int64_t step) {
  if (!due(step)) return;
  if (gap_ == 0)
    gap_ = first_;
  else if (quiet_)
    gap_ = std::min(2 * gap_, every_);
  quiet_ = true;
  next_ = step + gap_;
}

void ProfileSchedule::found(double noise, std::int64_t step) {
  quiet_ = noise <= kLittleNoise;
  if (noise <= 1) return;
  gap_ = first_;
  next_ = step + gap_;
}

StateView ProfileSchedule::state(std::string name) const {
  return number_state<std::int64_t>(std::move(name), {gap_, next_, quiet_});
}

void ProfileSchedule::restore(const StateMap& saved, const std::string& name) {
  if (!saved.contains(name)) return;
  const auto numbers = numbers_from<std::int64_t>(saved, name, 3);
  assign_numbers(numbers, gap_, next_, quiet_);
  gap_ = std::min(gap_, every_);
}

}  // namespace triaccel
