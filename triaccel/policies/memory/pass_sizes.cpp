#include "triaccel/policies/memory/pass_sizes.h"

#include <algorithm>
#include <bit>

#include "triaccel/base/divide_up.h"

namespace triaccel {

std::int64_t passes_per_step(const StepPlan& plan) {
  return divide_up(plan.batch_size, plan.micro_batch_size);
}

std::int64_t samples_per_pass(const StepPlan& plan) {
  return divide_up(plan.batch_size, passes_per_step(plan));
}

PassSizes::PassSizes(const BatchOptions& options, const StepPlan& start)
    : mode_(options.mode),
      bucket_(options.bucket),
      batch_(start.batch_size),
      passes_(passes_per_step(start)),
      smallest_batch_(std::min(options.smallest, batch_)),
      largest_batch_(std::max(batch_, options.largest > 0 ? options.largest : 4 * batch_)),
      smallest_(std::max(divide_up(smallest_batch_, passes_),
                         std::min(options.smallest_pass, samples_per_pass(start)))),
      largest_(largest_batch_ / passes_) {
  if (mode_ != BatchMode::Micro) return;
  smallest_batch_ = largest_batch_ = batch_;
  smallest_ = snapped(std::min(options.smallest, batch_));
  largest_ = snapped(options.largest > 0 ? std::min(options.largest, batch_) : batch_);
}

std::int64_t PassSizes::snapped(std::int64_t size) const {
  if (mode_ == BatchMode::Micro) {
    if (size < 1) return 0;
    return divide_up(batch_, divide_up(batch_, size));
  }
  if (size >= bucket_) return size / bucket_ * bucket_;
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(0, size))));
}

std::int64_t PassSizes::at_most(double size) const {
  if (!(size > static_cast<double>(smallest_))) return smallest_;
  if (size >= static_cast<double>(largest_)) return largest_;
  return std::max(smallest_, snapped(static_cast<std::int64_t>(size)));
}

std::int64_t PassSizes::above(std::int64_t size) const {
  if (size >= largest_) return size;
  if (mode_ == BatchMode::Micro) {
    const std::int64_t passes = divide_up(batch_, std::max<std::int64_t>(1, size));
    return std::clamp(divide_up(batch_, std::max<std::int64_t>(1, passes - 1)), smallest_,
                      largest_);
  }
  const std::int64_t next = size >= bucket_
                                ? snapped(size) + bucket_
                                : std::min(bucket_, 2 * std::max<std::int64_t>(1, snapped(size)));
  return std::clamp(next, smallest_, largest_);
}

std::int64_t PassSizes::below(std::int64_t size) const {
  return std::min(size, at_most(static_cast<double>(size - 1)));
}

void PassSizes::set(StepPlan& plan, std::int64_t pass) const {
  plan.batch_size = std::clamp(passes_ * pass, smallest_batch_, largest_batch_);
  plan.micro_batch_size = std::clamp<std::int64_t>(pass, 1, plan.batch_size);
  plan.micro_batch_size = samples_per_pass(plan);
}

}  // namespace triaccel
