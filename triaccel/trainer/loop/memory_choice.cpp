#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/trainer/loop/memory_census.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMostPlans = 24;   // that are measured to find one that fits
constexpr std::size_t kLastResorts = 6;   // when none does: those that need least
constexpr std::int64_t kMostFitting = 4;  // of those: the fastest when measured is taken
constexpr double kLeastPromise = 0.95;    // a plan that looks slower than that is not measured
constexpr int kMostTriesForLeast = 40;
constexpr std::int64_t kStepsToLeast = 64;  // a budget that is too small is raised by 1/64
constexpr double kLeastAdvantage = 1.02;    // over one that was measured before: times are noisy

}  // namespace

std::optional<MemoryPlan> best_plan(RunParts& parts, const std::vector<MemoryPlan>& plans,
                                    std::int64_t allowed_bytes, bool profile) {
  std::vector<MemoryPlan> candidates = fitting_plans(plans, allowed_bytes);
  const std::size_t expected = candidates.size();
  // When all others turned out to need more; what was not expected to fit may need less.
  for (const MemoryPlan& plan : least_of_each_means(plans))
    if (candidates.size() < expected + kLastResorts) candidates.push_back(plan);
  std::vector<MemoryPlan> failed, fitted;
  const auto is_pointless = [&](const MemoryPlan& plan, bool is_resort) {
    const auto alike = [&](const MemoryPlan& other) { return same_means(plan, other); };
    const auto needs_as_much = [&](const MemoryPlan& other) {
      return alike(other) && (is_resort ? plan.bytes() >= other.bytes()
                                        : plan.bytes() > planned_share(other.bytes()));
    };
    return std::ranges::any_of(fitted, alike) || std::ranges::any_of(failed, needs_as_much);
  };
  std::optional<MemoryPlan> best;
  MemoryPlan source;               // the candidate that became the best
  bool runner_is_of_best = false;  // else of one that was measured later
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const MemoryPlan& plan = candidates[i];
    const bool is_resort = i >= expected;
    if (best && (is_resort || std::ssize(fitted) == kMostFitting ||
                 worth_of(plan) < kLeastPromise * worth_of(*best)))
      break;
    if (is_pointless(plan, is_resort) || (std::ssize(failed) >= kMostPlans && !is_resort)) continue;
    const auto measured = measured_plan(parts, plan, profile);
    const bool fits = measured && measured->bytes() <= allowed_bytes;
    (fits ? fitted : failed).push_back(plan);
    runner_is_of_best = fits && (!best || worth_of(*measured) > kLeastAdvantage * worth_of(*best));
    if (!runner_is_of_best) continue;
    best = measured;
    source = plan;
  }
  return !best || runner_is_of_best ? best : measured_plan(parts, source, profile);
}

std::optional<MemoryPlan> least_plan(RunParts& parts, const MemoryCensus& census) {
  MemoryCosts costs = census.costs;
  for (PassCost& pass : costs.passes) pass.profile_bytes = 0;  // fewer samples need less
  const BudgetLifted lifted(parts.on);
  int tries = 0;
  const auto fits = [&](const MemoryPlan& plan) {
    const std::int64_t data =
        plan.data_on_host ? parts.data.train->bytes() + parts.data.test->bytes() : 0;
    const ScopedLimit limit(parts.on.gauge, plan.bytes() + data);
    ++tries;
    return measured_plan(parts, plan, /*profile=*/false).has_value();
  };
  std::optional<MemoryPlan> least;
  for (MemoryPlan plan : least_of_each_means(memory_plans(costs, census.request))) {
    std::optional<bool> fitted;  // the step before: more until it does, or less until it does not
    while (tries < kMostTriesForLeast && (!least || plan.bytes() < least->bytes())) {
      const bool fits_now = fits(plan);
      if (fits_now) least = plan;
      if (std::exchange(fitted, fits_now).value_or(fits_now) != fits_now) break;
      plan.step += (fits_now ? -1 : 1) * (plan.bytes() / kStepsToLeast);
    }
  }
  return least;
}

}  // namespace triaccel
