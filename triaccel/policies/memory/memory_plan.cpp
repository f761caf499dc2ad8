#include "triaccel/policies/memory/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// Least share of a pass's time that does not depend on its samples. Timings of fast steps are
/// noisy: without it they may say that passes of one sample cost no more than large ones.
constexpr double kLeastFixedShare = 0.01;

/// Least time of a pass that saves memory, over one that keeps everything: timings are noisy.
constexpr double kLeastExtraTime = 1.02;

constexpr double kPartialShares[] = {0.25, 0.5, 0.75};

Lossiness lossiness_of(const MemoryPlan& plan, const MemoryRequest& request) {
  const std::int64_t asked = request.asked_pass > 0 ? request.asked_pass : request.batch;
  const bool splits_norms = request.batch_norm && plan.pass_size < asked;
  const bool joins_norms = request.batch_norm && request.accumulated && plan.pass_size > asked;
  if (plan.pass.activations == ActivationFormat::Compressed && !request.compressed)
    return Lossiness::Marked;
  if (splits_norms && plan.pass_size < kFewSamples) return Lossiness::Marked;
  const bool rounds_state = plan.state_storage == StateStorage::EightBits;
  return splits_norms || joins_norms || rounds_state ? Lossiness::Slight : Lossiness::None;
}

std::int64_t rounded_up(double bytes) { return static_cast<std::int64_t>(std::ceil(bytes)); }

bool is_better(const MemoryPlan& a, const MemoryPlan& b) {
  if (worth_of(a) != worth_of(b)) return worth_of(a) > worth_of(b);
  if (a.lossiness != b.lossiness) return a.lossiness < b.lossiness;
  return a.bytes() < b.bytes();
}

std::int64_t state_bytes(const MemoryCosts& costs, StateStorage storage) {
  switch (storage) {
    case StateStorage::AsAsked:
      return costs.state;
    case StateStorage::EightBits:
      return costs.state_in_8_bits;
    case StateStorage::Host:
      return 0;
  }
  return costs.state;
}

std::vector<StateStorage> state_choices(const MemoryCosts& costs, const MemoryRequest& request) {
  std::vector<StateStorage> choices = {StateStorage::AsAsked};
  if (request.may_quantize_state && costs.state_in_8_bits < costs.state)
    choices.push_back(StateStorage::EightBits);
  if (request.may_move_state && costs.state > 0) choices.push_back(StateStorage::Host);
  return choices;
}

/// `all` with bytes and time of a pass that applies its means to a share of what it saves.
PassCost between(const PassCost& none, const PassCost& all, double share) {
  PassCost some = all;
  some.bytes = std::lerp(none.bytes, all.bytes, share);
  some.bytes_per_sample = std::lerp(none.bytes_per_sample, all.bytes_per_sample, share);
  some.seconds = std::lerp(none.seconds, all.seconds, share);
  return some;
}

}  // namespace

const char* name_of(ActivationFormat format) {
  switch (format) {
    case ActivationFormat::Raw:
      return "raw";
    case ActivationFormat::Lossless:
      return "lossless";
    case ActivationFormat::Compressed:
      return "compressed";
    case ActivationFormat::Offloaded:
      return "offloaded";
  }
  return "";
}

const char* name_of(Lossiness lossiness) {
  switch (lossiness) {
    case Lossiness::None:
      return "exact";
    case Lossiness::Slight:
      return "slightly lossy";
    case Lossiness::Marked:
      return "lossy";
  }
  return "";
}

void set_bytes(MemoryPlan& plan, std::int64_t bytes) {
  plan.step += bytes - plan.bytes();
  // Workspaces that grow with the samples up to a bound make the line steeper than activations.
  if (plan.step < 0) plan.activations += std::exchange(plan.step, 0);
}

bool same_means(const MemoryPlan& a, const MemoryPlan& b) {
  const auto means = [](const MemoryPlan& plan) {
    const PassCost& pass = plan.pass;
    return std::tuple(pass.activations, pass.recompute_norms, pass.recompute_segments > 0,
                      pass.eager, pass.casts_by_layer, pass.whole, plan.state_storage,
                      plan.data_on_host);
  };
  return means(a) == means(b);
}

double worth_of(double samples_per_second, Lossiness lossiness) {
  switch (lossiness) {
    case Lossiness::None:
      return samples_per_second;
    case Lossiness::Slight:
      return samples_per_second / kWorthASlightLoss;
    case Lossiness::Marked:
      return samples_per_second / kWorthAMarkedLoss;
  }
  return samples_per_second;
}

double worth_of(const MemoryPlan& plan) {
  return worth_of(plan.samples_per_second, plan.lossiness);
}

PassCost line_through(const PassSample& small, const PassSample& large, double fixed_bytes) {
  const auto more = static_cast<double>(std::max<std::int64_t>(1, large.samples - small.samples));
  const auto samples = static_cast<double>(large.samples);
  PassCost cost{.bytes_per_sample = std::max(0.0, (large.bytes - small.bytes) / more),
                .seconds_per_sample = std::max(1e-9, (large.seconds - small.seconds) / more)};
  cost.bytes = large.bytes - fixed_bytes - samples * cost.bytes_per_sample +
               std::max(small.overhead, large.overhead);
  cost.seconds =
      std::max(kLeastFixedShare * large.seconds, large.seconds - samples * cost.seconds_per_sample);
  return cost;
}

PassCost only_size(const PassSample& sample, double fixed_bytes) {
  return {.largest = sample.samples,
          .bytes = sample.bytes + sample.overhead - fixed_bytes,
          .seconds_per_sample = sample.seconds / static_cast<double>(sample.samples)};
}

PassCost not_faster(PassCost cost, const std::vector<PassCost>& before) {
  const auto first = std::ranges::find(before, cost.whole, &PassCost::whole);
  if (first == before.end() || first->largest > 0) return cost;
  cost.seconds = std::max(cost.seconds, kLeastExtraTime * first->seconds);
  cost.seconds_per_sample =
      std::max(cost.seconds_per_sample, kLeastExtraTime * first->seconds_per_sample);
  return cost;
}

std::optional<double> least_seconds_per_sample(const std::vector<PassCost>& passes) {
  std::optional<double> least;
  for (const PassCost& pass : passes)
    if (pass.largest == 0)
      least = std::min(least.value_or(pass.seconds_per_sample), pass.seconds_per_sample);
  return least;
}

void add_partial_offload(MemoryCosts& costs) {
  const std::vector<PassCost> measured = costs.passes;
  for (const PassCost& all : measured) {
    if (all.activations != ActivationFormat::Offloaded || all.offload_share != 1) continue;
    const auto none = std::ranges::find_if(measured, [&](const PassCost& pass) {
      return pass.activations == ActivationFormat::Lossless &&
             std::tuple(pass.eager, pass.casts_by_layer, pass.whole) ==
                 std::tuple(all.eager, all.casts_by_layer, all.whole);
    });
    if (none == measured.end() || none->largest > 0 || all.largest > 0) continue;
    for (const double share : kPartialShares) {
      PassCost some = between(*none, all, share);
      some.offload_share = share;
      some.seconds_per_sample =
          std::max(kLeastExtraTime * none->seconds_per_sample, share * all.seconds_per_sample);
      costs.passes.push_back(some);
    }
  }
}

void add_partial_recomputation(MemoryCosts& costs) {
  const std::vector<PassCost> measured = costs.passes;
  for (const PassCost& all : measured) {
    if (all.recompute_segments != 1) continue;
    const auto none = std::ranges::find_if(measured, [&](const PassCost& pass) {
      return pass.activations == ActivationFormat::Raw && !pass.recompute_norms &&
             pass.recompute_segments == 0 &&
             std::tuple(pass.eager, pass.casts_by_layer, pass.whole) ==
                 std::tuple(all.eager, all.casts_by_layer, all.whole);
    });
    if (none == measured.end() || none->largest > 0 || all.largest > 0) continue;
    for (const double share : kPartialShares) {
      PassCost some = between(*none, all, share);
      some.recompute_segments = share;
      some.seconds_per_sample = std::lerp(none->seconds_per_sample, all.seconds_per_sample, share);
      costs.passes.push_back(some);
    }
  }
}

std::vector<MemoryPlan> memory_plans(const MemoryCosts& costs, const MemoryRequest& request) {
  require(request.batch > 0, "memory plan", "the batch must be positive, got ", request.batch);
  const std::int64_t smallest = std::clamp<std::int64_t>(request.smallest_pass, 1, request.batch);
  std::vector<MemoryPlan> plans;
  const auto add = [&](const PassCost& pass, std::int64_t size, StateStorage storage,
                       bool on_host) {
    const auto passes = static_cast<double>(divide_up(request.batch, size));
    MemoryPlan plan{.pass = pass,
                    .pass_size = size,
                    .state_storage = storage,
                    .data_on_host = on_host,
                    .weights = costs.weights,
                    .state = state_bytes(costs, storage),
                    .data = on_host ? 0 : costs.data,
                    .step = rounded_up(pass.bytes),
                    .activations = rounded_up(pass.bytes_per_sample * static_cast<double>(size))};
    plan.step = std::max(plan.step, rounded_up(pass.profile_bytes) - plan.activations);
    set_bytes(plan, plan.bytes());
    const double per_sample = pass.seconds_per_sample + (on_host ? costs.data_seconds : 0);
    if (storage == StateStorage::Host) plan.state_seconds = costs.state_seconds;
    const double seconds = passes * pass.seconds + static_cast<double>(request.batch) * per_sample +
                           plan.state_seconds;
    plan.samples_per_second = seconds > 0 ? static_cast<double>(request.batch) / seconds : 0;
    plan.lossiness = lossiness_of(plan, request);
    if (request.lossy || plan.lossiness == Lossiness::None) plans.push_back(plan);
  };
  const std::vector<StateStorage> storages = state_choices(costs, request);
  const bool moves = request.may_move_data && costs.data > 0;
  for (const PassCost& pass : costs.passes)
    for (std::int64_t parts = 1; parts <= request.batch; ++parts) {
      const std::int64_t size = divide_up(request.batch, parts);
      if (size < smallest) break;
      if (parts > 1 && size == divide_up(request.batch, parts - 1)) continue;
      if (pass.whole != (parts == 1) || (pass.largest > 0 && size > pass.largest)) continue;
      for (const StateStorage storage : storages)
        for (const bool on_host : {false, true})
          if (!on_host || moves) add(pass, size, storage, on_host);
    }
  return plans;
}

std::vector<MemoryPlan> fitting_plans(std::vector<MemoryPlan> plans, std::int64_t budget_bytes) {
  std::erase_if(plans, [&](const MemoryPlan& plan) { return plan.bytes() > budget_bytes; });
  std::ranges::stable_sort(plans, is_better);
  return plans;
}

std::optional<MemoryPlan> plan_memory(const std::vector<MemoryPlan>& plans,
                                      std::int64_t budget_bytes) {
  const std::vector<MemoryPlan> fitting = fitting_plans(plans, budget_bytes);
  return fitting.empty() ? std::nullopt : std::optional(fitting.front());
}

MemoryPlan least_memory(const std::vector<MemoryPlan>& plans) {
  ensure(!plans.empty(), "there is a plan");
  return *std::ranges::min_element(plans, [](const MemoryPlan& a, const MemoryPlan& b) {
    return a.bytes() != b.bytes() ? a.bytes() < b.bytes() : is_better(a, b);
  });
}

std::vector<MemoryPlan> least_of_each_means(std::vector<MemoryPlan> plans) {
  std::ranges::stable_sort(
      plans, [](const MemoryPlan& a, const MemoryPlan& b) { return a.bytes() < b.bytes(); });
  std::vector<MemoryPlan> least;
  for (const MemoryPlan& plan : plans)
    if (std::ranges::none_of(least,
                             [&](const MemoryPlan& other) { return same_means(plan, other); }))
      least.push_back(plan);
  return least;
}

std::vector<MemoryPlan> best_by_budget(const std::vector<MemoryPlan>& plans) {
  std::vector<MemoryPlan> sorted = plans;
  std::ranges::stable_sort(
      sorted, [](const MemoryPlan& a, const MemoryPlan& b) { return a.bytes() < b.bytes(); });
  std::vector<MemoryPlan> best;
  for (const MemoryPlan& plan : sorted) {
    if (!best.empty() && !is_better(plan, best.back())) continue;
    if (!best.empty() && best.back().bytes() == plan.bytes()) best.pop_back();
    best.push_back(plan);
  }
  return best;
}

}  // namespace triaccel
