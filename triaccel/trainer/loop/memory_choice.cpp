#include <algorithm>
#include <limits>
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
constexpr double kLeastAdvantage = 1.02;  // over one that was measured before: times are noisy

// The least budget is looked for with a few of the means, in steps of 1/64.
constexpr std::int64_t kMostMeans = 12, kMostSqueezed = 4;
constexpr std::int64_t kStepsToLeast = 64;
constexpr int kMostRaises = 4;

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
  std::int64_t high = plan.bytes(), low = high - high / 4;
  if (known > 0) high = std::min(high, known - known / kStepsToLeast);
  for (int raised = 0; !fits_in(high); ++raised) {
    if (known > 0 || raised == kMostRaises) return {};
    low = high;
    high += high / 8;
  }
  while (high - low > high / kStepsToLeast) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits_in(middle) ? high : low) = middle;
  }
  return high + high / kStepsToLeast;  // a run finds its plan by more than these steps
}

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
  std::optional<MemoryPlan> least;
  for (const MemoryPlan& plan :
       least_where_there_is_room(parts, memory_plans(costs, census.request))) {
    const auto found = least_limit_of(parts, plan, least ? least->bytes() : 0);
    if (!found) continue;
    least = plan;
    least->step += *found - plan.bytes();
  }
  return least;
}

}  // namespace triaccel
