#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/policies/memory/least_limit.h"
#include "triaccel/trainer/loop/memory_census.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMostPlans = 24;   // that are measured to find one that fits
constexpr std::size_t kLastResorts = 6;   // when none does: those that need least
constexpr std::int64_t kMostFitting = 4;  // of those: the fastest when measured is taken
constexpr double kLeastPromise = 0.95;    // a plan that looks slower than that is not measured
constexpr double kLeastAdvantage = 1.02;  // over one that was measured before: times are noisy
constexpr double kLessBytes = 31. / 32;   // than one that failed: else it is not measured

// Plans that look a bit too large are measured where they look much faster than the best.
constexpr double kNearMiss = 1.15, kMuchFaster = 2;
constexpr std::size_t kMostNearMisses = 6;

// The least budget is looked for with a few of the means.
constexpr std::int64_t kMostMeans = 12, kMostSqueezed = 4, kMostNextSizes = 2;

/// Measures plans one by one and keeps the best that fits.
class PlanSearch {
 public:
  PlanSearch(RunParts& parts, std::int64_t allowed_bytes, bool profile)
      : parts_(parts), allowed_bytes_(allowed_bytes), profile_(profile) {}

  void measure(const MemoryPlan& plan) {
    const auto measured = measured_plan(parts_, plan, profile_);
    const bool fits = measured && measured->bytes() <= allowed_bytes_;
    (fits ? fitted_ : failed_).push_back(plan);
    runner_is_of_best_ =
        fits && (!best_ || worth_of(*measured) > kLeastAdvantage * worth_of(*best_));
    if (!runner_is_of_best_) return;
    best_ = measured;
    source_ = plan;
  }

  const std::optional<MemoryPlan>& best() const { return best_; }
  std::int64_t fitting() const { return std::ssize(fitted_); }
  std::int64_t failed() const { return std::ssize(failed_); }

  /// Whether one with the same means fits.
  bool has_fitting(const MemoryPlan& plan) const {
    return std::ranges::any_of(fitted_,
                               [&](const MemoryPlan& other) { return same_means(plan, other); });
  }

  /// Whether one with the same means does not, of which this one needs such a share or more.
  bool has_failing(const MemoryPlan& plan, double share) const {
    return std::ranges::any_of(failed_, [&](const MemoryPlan& other) {
      return same_means(plan, other) &&
             static_cast<double>(plan.bytes()) >= share * static_cast<double>(other.bytes());
    });
  }

  /// The best, whose runner the parts then have.
  std::optional<MemoryPlan> take() {
    return !best_ || runner_is_of_best_ ? best_ : measured_plan(parts_, source_, profile_);
  }

 private:
  RunParts& parts_;
  std::int64_t allowed_bytes_;
  bool profile_;
  std::vector<MemoryPlan> failed_, fitted_;
  std::optional<MemoryPlan> best_;
  MemoryPlan source_;               // the candidate that became the best
  bool runner_is_of_best_ = false;  // else of one that was measured later
};

/// The plans that need least when nothing limits them, measured, the least of them first.
std::vector<MemoryPlan> least_where_there_is_room(RunParts& parts,
                                                  const std::vector<MemoryPlan>& plans) {
  std::vector<MemoryPlan> measured;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const MemoryPlan& plan : least_of_each_means(plans)) {
    if (std::ssize(measured) == kMostMeans || plan.bytes() >= least) break;
    const auto found = measured_plan(parts, plan, /*profile=*/false);
    if (!found) continue;
    measured.push_back(*found);
    least = std::min(least, found->bytes());
  }
  std::ranges::stable_sort(measured, {}, &MemoryPlan::bytes);
  if (std::ssize(measured) > kMostSqueezed) measured.resize(kMostSqueezed);
  return measured;
}

/// The plans with the same means and the next larger passes.
std::vector<MemoryPlan> next_sizes(const std::vector<MemoryPlan>& plans, const MemoryPlan& than) {
  std::vector<MemoryPlan> next;
  for (const MemoryPlan& plan : plans)
    if (same_means(plan, than) && plan.pass.offload_share == than.pass.offload_share &&
        plan.pass.recompute_segments == than.pass.recompute_segments &&
        plan.pass_size > than.pass_size)
      next.push_back(plan);
  std::ranges::sort(next, {}, &MemoryPlan::pass_size);
  if (std::ssize(next) > kMostNextSizes) next.resize(kMostNextSizes);
  return next;
}

/// The least limit under which its steps fit: memory that is short is used with fewer gaps. Nothing
/// where that is no less than `known` (0: none).
std::optional<std::int64_t> least_limit_of(RunParts& parts, const MemoryPlan& plan,
                                           std::int64_t known) {
  const std::int64_t data =
      plan.data_on_host ? parts.data.train->bytes() + parts.data.test->bytes() : 0;
  const auto fits_in = [&](std::int64_t bytes) {
    const ScopedLimit limit(parts.on.gauge, bytes + data);
    return measured_plan(parts, plan, /*profile=*/false).has_value();
  };
  const auto found = least_limit(fits_in, plan.bytes(), known);
  if (!found) return {};
  return *found + *found / kStepsToLeast;  // a run finds its plan by more than these steps
}

}  // namespace

std::optional<MemoryPlan> best_plan(RunParts& parts, const std::vector<MemoryPlan>& plans,
                                    std::int64_t allowed_bytes, bool profile) {
  PlanSearch search(parts, allowed_bytes, profile);
  for (const MemoryPlan& plan : fitting_plans(plans, allowed_bytes)) {
    if (search.fitting() == kMostFitting || search.failed() == kMostPlans) break;
    if (search.best() && worth_of(plan) < kLeastPromise * worth_of(*search.best())) break;
    if (!search.has_fitting(plan) && !search.has_failing(plan, kLessBytes)) search.measure(plan);
  }
  // What was not expected to fit may need less: first any plan, then one that is much faster.
  std::size_t resorts = 0;
  for (const MemoryPlan& plan : least_of_each_means(plans)) {
    if (search.best() || resorts++ == kLastResorts) break;
    if (!search.has_failing(plan, 1)) search.measure(plan);
  }
  const auto nearly = static_cast<std::int64_t>(kNearMiss * static_cast<double>(allowed_bytes));
  std::size_t near_misses = 0;
  for (const MemoryPlan& plan : fitting_plans(plans, nearly)) {
    if (!search.best() || worth_of(plan) < kMuchFaster * worth_of(*search.best())) break;
    if (plan.bytes() <= allowed_bytes || search.has_failing(plan, kLessBytes)) continue;
    if (near_misses++ == kMostNearMisses) break;
    search.measure(plan);
  }
  return search.take();
}

std::optional<MemoryPlan> least_plan(RunParts& parts, const MemoryCensus& census) {
  MemoryCosts costs = census.costs;
  for (PassCost& pass : costs.passes) pass.profile_bytes = 0;  // fewer samples need less
  const BudgetLifted lifted(parts.on);
  const std::vector<MemoryPlan> plans = memory_plans(costs, census.request);
  std::optional<MemoryPlan> least;
  const auto look_at = [&](const MemoryPlan& plan) {
    const auto found = least_limit_of(parts, plan, least ? least->bytes() : 0);
    if (!found) return;
    least = plan;
    set_bytes(*least, *found);
  };
  for (const MemoryPlan& plan : least_where_there_is_room(parts, plans)) look_at(plan);
  // Products of small matrices may need more workspace than those of larger ones.
  if (least)
    for (const MemoryPlan& plan : next_sizes(plans, *least)) look_at(plan);
  return least;
}

}  // namespace triaccel
