#include "triaccel/trainer/loop/pending_interval.h"

#include <algorithm>

namespace triaccel {
namespace {

constexpr const char* kState = "interval";

}  // namespace

void PendingInterval::add(const StepReport& report) {
  const StepReport before = std::exchange(so_far_, report);
  so_far_.interval_steps += before.interval_steps;
  so_far_.interval_samples += before.interval_samples;
  so_far_.seconds += before.seconds;
  so_far_.skipped_steps += before.skipped_steps;
  so_far_.nonfinite_losses += before.nonfinite_losses;
  so_far_.memory_retries += before.memory_retries;
  so_far_.memory.peak = std::max(so_far_.memory.peak, before.memory.peak);
  so_far_.memory.reserved = std::max(so_far_.memory.reserved, before.memory.reserved);
  if (before.skipped_layer >= 0) so_far_.skipped_layer = before.skipped_layer;
}

std::vector<StateView> PendingInterval::state() const {
  return {number_state<std::int64_t>(
      kState, {so_far_.interval_steps, so_far_.interval_samples, so_far_.skipped_steps,
               so_far_.skipped_layer, so_far_.memory_retries, so_far_.memory.peak,
               so_far_.memory.reserved, so_far_.nonfinite_losses})};
}

void PendingInterval::restore(const StateMap& saved) {
  const auto numbers = numbers_from<std::int64_t>(saved, kState, 8);
  so_far_ = {};
  so_far_.interval_steps = numbers[0];
  so_far_.interval_samples = numbers[1];
  so_far_.skipped_steps = numbers[2];
  so_far_.skipped_layer = numbers[3];
  so_far_.memory_retries = numbers[4];
  so_far_.memory.peak = numbers[5];
  so_far_.memory.reserved = numbers[6];
  so_far_.nonfinite_losses = numbers[7];
}

}  // namespace triaccel
