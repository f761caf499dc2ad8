#include "triaccel/policies/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace triaccel {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

PassCost raw() {
  return {.bytes = 60.0 * kMiB,
          .bytes_per_sample = 4.0 * kMiB,
          .seconds = 1e-3,
          .seconds_per_sample = 1e-4};
}
PassCost recomputed() {
  return {.recompute_norms = true,
          .bytes = 60.0 * kMiB,
          .bytes_per_sample = 3.0 * kMiB,
          .seconds = 1e-3,
          .seconds_per_sample = 1.2e-4};
}
PassCost compressed() {
  return {.activations = ActivationFormat::Compressed,
          .bytes = 62.0 * kMiB,
          .bytes_per_sample = 1.0 * kMiB,
          .seconds = 2e-3,
          .seconds_per_sample = 2e-4};
}

std::vector<PassCost> in_one_pass_or_several(std::vector<PassCost> costs) {
  const std::size_t count = costs.size();
  for (std::size_t i = 0; i < count; ++i) {
    costs.push_back(costs[i]);
    costs.back().whole = true;
  }
  return costs;
}

MemoryCosts costs() {
  return {.weights = 45 * kMiB,
          .state = 45 * kMiB,
          .state_in_8_bits = 12 * kMiB,
          .state_seconds = 1.5e-3,
          .data = 150 * kMiB,
          .data_seconds = 1e-6,
          .passes = in_one_pass_or_several({raw(), recomputed(), compressed()})};
}

std::vector<MemoryPlan> plans(MemoryRequest request = {}) {
  request.batch = 64;
  request.smallest_pass = 2;
  return memory_plans(costs(), request);
}

TEST(MemoryPlan, KeepsEverythingWhereThereIsRoom) {
  const auto plan = plan_memory(plans({.batch_norm = true}), 1000 * kMiB);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->pass_size, 64);
  EXPECT_FALSE(plan->pass.recompute_norms || plan->data_on_host);
  EXPECT_EQ(plan->state_storage, StateStorage::AsAsked);
  EXPECT_EQ(plan->bytes(), (45 + 45 + 60 + 256 + 150) * kMiB);
  EXPECT_EQ(plan->lossiness, Lossiness::None);
  EXPECT_DOUBLE_EQ(plan->samples_per_second, 64 / (1e-3 + 64e-4));
}

TEST(MemoryPlan, TakesExactMeansBeforeLossyOnes) {
  // All of it takes 556 MiB, without the data 406, with norms computed again 342, without
  // optimizer state 297.
  const auto all = plans({.batch_norm = true});
  const auto moved = plan_memory(all, 410 * kMiB);
  ASSERT_TRUE(moved);
  EXPECT_TRUE(moved->data_on_host);
  EXPECT_FALSE(moved->pass.recompute_norms);
  EXPECT_EQ(moved->lossiness, Lossiness::None);
  const auto again = plan_memory(all, 400 * kMiB);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->pass.recompute_norms);
  EXPECT_EQ(again->lossiness, Lossiness::None);
  const auto no_state = plan_memory(all, 340 * kMiB);
  ASSERT_TRUE(no_state);
  EXPECT_EQ(no_state->state_storage, StateStorage::Host);
  EXPECT_EQ(no_state->lossiness, Lossiness::None);
  const auto slight = plan_memory(all, 290 * kMiB);
  ASSERT_TRUE(slight);
  EXPECT_EQ(slight->lossiness, Lossiness::Slight);
  const auto marked = plan_memory(all, 120 * kMiB);
  ASSERT_TRUE(marked);
  EXPECT_EQ(marked->lossiness, Lossiness::Marked);
}

TEST(MemoryPlan, JoinsNoPartsOfABatchWhoseNormsWereAskedToReadThemApart) {
  const auto joined = [](MemoryRequest request) {
    return plan_memory(plans(request), 1000 * kMiB)->lossiness;
  };
  EXPECT_EQ(joined({.asked_pass = 16, .accumulated = true, .batch_norm = true}), Lossiness::Slight);
  EXPECT_EQ(joined({.asked_pass = 16, .accumulated = true}), Lossiness::None);
  EXPECT_EQ(joined({.asked_pass = 16, .batch_norm = true}), Lossiness::None);  // only for memory
  for (const MemoryPlan& plan :
       plans({.asked_pass = 16, .accumulated = true, .batch_norm = true, .lossy = false}))
    EXPECT_EQ(plan.pass_size, 16);
}

TEST(MemoryPlan, SplitsTheBatchExactlyWhereNoNormReadsAcrossIt) {
  const auto plan = plan_memory(plans({.batch_norm = false}), 200 * kMiB);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->lossiness, Lossiness::None);
  EXPECT_LT(plan->pass_size, 64);
}

TEST(MemoryPlan, NeverFitsBelowTheLeast) {
  for (const bool norms : {false, true})
    for (const bool lossy : {false, true}) {
      const auto all = plans({.batch_norm = norms, .lossy = lossy});
      const MemoryPlan least = least_memory(all);
      EXPECT_FALSE(plan_memory(all, least.bytes() - 1));
      const auto found = plan_memory(all, least.bytes());
      ASSERT_TRUE(found);
      EXPECT_EQ(found->bytes(), least.bytes());
      if (!lossy) {
        EXPECT_EQ(least.lossiness, Lossiness::None);
      }
      EXPECT_GE(least.pass_size, 2);
    }
}

TEST(MemoryPlan, LeavesAloneWhatItIsTold) {
  for (const MemoryPlan& plan : plans({.lossy = false,
                                .may_quantize_state = false,
                                .may_move_state = false,
                                .may_move_data = false})) {
    EXPECT_EQ(plan.state_storage, StateStorage::AsAsked);
    EXPECT_FALSE(plan.data_on_host);
    EXPECT_NE(plan.pass.activations, ActivationFormat::Compressed);
  }
}

TEST(MemoryPlan, TakesEightBitStateOnlyWhereTheBusCostsMoreThanTheLossIsWorth) {
  const auto state_at = [](double seconds) {
    MemoryCosts one = costs();
    one.passes = in_one_pass_or_several({raw()});
    one.state_seconds = seconds;
    // 30 MiB too little for all of it but the data.
    const MemoryRequest one_pass{.batch = 64, .smallest_pass = 64};
    const auto plan = plan_memory(memory_plans(one, one_pass), (556 - 150 - 30) * kMiB);
    return plan ? plan->state_storage : StateStorage::AsAsked;
  };
  EXPECT_EQ(state_at(1e-3), StateStorage::Host);
  EXPECT_EQ(state_at(20e-3), StateStorage::EightBits);
}

TEST(MemoryPlan, CountsTheBusOncePerStepForStateInHostMemory) {
  MemoryCosts one = costs();
  one.passes = in_one_pass_or_several({raw()});
  for (const MemoryPlan& plan : memory_plans(one, {.batch = 64, .may_move_data = false})) {
    if (plan.state_storage != StateStorage::Host) continue;
    EXPECT_EQ(plan.state, 0);
    const double passes = 64.0 / static_cast<double>(plan.pass_size);
    if (plan.pass_size != 64 && plan.pass_size != 8) continue;
    EXPECT_DOUBLE_EQ(plan.samples_per_second, 64 / (passes * 1e-3 + 64e-4 + 1.5e-3));
  }
}

TEST(MemoryPlan, MoreMemoryIsNeverWorse) {
  const auto all = plans({.batch_norm = true});
  const auto best = best_by_budget(all);
  ASSERT_GE(best.size(), 5u);
  EXPECT_EQ(best.front().bytes(), least_memory(all).bytes());
  for (std::size_t i = 1; i < best.size(); ++i) {
    EXPECT_GT(best[i].bytes(), best[i - 1].bytes());
    EXPECT_TRUE(best[i].lossiness < best[i - 1].lossiness ||
                best[i].samples_per_second > best[i - 1].samples_per_second);
  }
  for (const MemoryPlan& plan : best) {
    const auto found = plan_memory(all, plan.bytes());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->lossiness, plan.lossiness);
    EXPECT_EQ(found->samples_per_second, plan.samples_per_second);
  }
}

TEST(MemoryPlan, TakesLossesWhereTheyAreWorthIt) {
  PassCost slow = raw(), fast = compressed();
  slow.whole = fast.whole = true;
  fast.seconds = slow.seconds;
  const auto chosen = [&](double times_as_fast) {
    fast.seconds = slow.seconds / times_as_fast;
    fast.seconds_per_sample = slow.seconds_per_sample / times_as_fast;
    return plan_memory(memory_plans({.passes = {slow, fast}}, {.batch = 8}), 1000 * kMiB)
        ->pass.activations;
  };
  EXPECT_EQ(chosen(kWorthAMarkedLoss - 0.1), ActivationFormat::Raw);
  EXPECT_EQ(chosen(kWorthAMarkedLoss + 0.1), ActivationFormat::Compressed);
}

TEST(MemoryPlan, CountsNoLossThatWasAskedFor) {
  MemoryRequest request{.batch_norm = true, .lossy = false};
  for (const MemoryPlan& plan : plans(request)) EXPECT_EQ(plan.pass_size, 64);
  request.asked_pass = 32;
  EXPECT_TRUE(std::ranges::any_of(plans(request), [](const MemoryPlan& plan) {
    return plan.pass_size == 32 && plan.lossiness == Lossiness::None;
  }));
  request.compressed = true;
  EXPECT_TRUE(std::ranges::any_of(plans(request), [](const MemoryPlan& plan) {
    return plan.pass.activations == ActivationFormat::Compressed;
  }));
}

TEST(MemoryPlan, TakesNoLargerPassesThanWereSeenToFit) {
  PassCost seen = raw();
  seen.largest = 4;
  for (const MemoryPlan& plan : memory_plans({.passes = {seen}}, {.batch = 64}))
    EXPECT_LE(plan.pass_size, 4);
}

TEST(MemoryPlan, OrdersWhatFitsByWhatItIsWorth) {
  const auto all = plans({.batch_norm = true});
  const auto fitting = fitting_plans(all, 400 * kMiB);
  ASSERT_GE(fitting.size(), 10u);
  EXPECT_LT(fitting.size(), all.size());
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    EXPECT_LE(fitting[i].bytes(), 400 * kMiB);
    if (i > 0) {
      EXPECT_LE(worth_of(fitting[i].samples_per_second, fitting[i].lossiness),
                worth_of(fitting[i - 1].samples_per_second, fitting[i - 1].lossiness));
    }
  }
}

TEST(MemoryPlan, CountsWhatTheAllocatorTakesOnTop) {
  const PassCost cost =
      line_through({.samples = 8, .bytes = 180, .overhead = 5, .seconds = 1},
                   {.samples = 16, .bytes = 260, .overhead = 12, .seconds = 2}, 20);
  EXPECT_DOUBLE_EQ(cost.bytes_per_sample, 10);
  EXPECT_DOUBLE_EQ(cost.bytes, 100 - 20 + 12);
}

TEST(MemoryPlan, TakesLargePassesWhereNoisyTimesFavourNone) {
  const PassSample small{.samples = 8, .bytes = 80, .seconds = 0.5};
  const PassSample large{.samples = 16, .bytes = 160, .seconds = 2};
  MemoryCosts costs{.passes = {line_through(small, large, 0)}};
  const auto plan = plan_memory(memory_plans(costs, {.batch = 64}), 165);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->pass_size, 16);
}

TEST(MemoryPlan, CountsNothingAsNegative) {
  const PassSample small{.samples = 8, .bytes = 100};
  const PassSample large{.samples = 16, .bytes = 300};
  MemoryCosts costs{.passes = {line_through(small, large, 0)}};
  costs.passes[0].whole = true;
  const MemoryPlan plan = memory_plans(costs, {.batch = 16}).front();
  EXPECT_EQ(plan.step, 0);
  EXPECT_EQ(plan.activations, 300);
  EXPECT_EQ(plan.bytes(), 300);
}

TEST(MemoryPlan, HasNoNegativePartWhereItsStepsTakeLessThanThought) {
  MemoryPlan plan{.weights = 10, .step = 20, .activations = 50};
  set_bytes(plan, 90);
  EXPECT_EQ(plan.step, 30);
  set_bytes(plan, 45);
  EXPECT_EQ(plan.step, 0);
  EXPECT_EQ(plan.activations, 35);
  EXPECT_EQ(plan.bytes(), 45);
}

TEST(MemoryPlan, LeavesRoomToMeasureActivations) {
  MemoryCosts one{.passes = {compressed()}};
  one.passes[0].whole = true;
  one.passes[0].profile_bytes = 100.0 * kMiB;
  EXPECT_EQ(memory_plans(one, {.batch = 8}).front().bytes(), 100 * kMiB);
  EXPECT_EQ(memory_plans(one, {.batch = 64}).front().bytes(), (62 + 64) * kMiB);
}

TEST(MemoryPlan, PassesAreNearlyEqualPartsOfTheBatch) {
  MemoryCosts one = costs();
  one.passes = in_one_pass_or_several({raw()});
  one.data = one.state_in_8_bits = one.state = 0;
  std::vector<std::int64_t> sizes;
  for (const MemoryPlan& plan : memory_plans(one, {.batch = 10})) sizes.push_back(plan.pass_size);
  std::ranges::sort(sizes, std::greater());
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{10, 5, 4, 3, 2, 1}));
}

PassCost kept(ActivationFormat activations, double mib_per_sample, double seconds_per_sample) {
  return {.activations = activations,
          .bytes = 60.0 * kMiB,
          .bytes_per_sample = mib_per_sample * kMiB,
          .seconds = 1e-3,
          .seconds_per_sample = seconds_per_sample};
}

// Where no two sizes fit, the time of a whole pass counts as that of its samples, which tells
// nothing of larger passes.
TEST(MeasuredTimes, OfAPassThatJustFitsBindNoOther) {
  const PassCost line{.seconds = 1e-3, .seconds_per_sample = 1e-4};
  const PassCost single{.largest = 1, .seconds_per_sample = 2e-2};
  const PassCost offloaded{.seconds = 1e-4, .seconds_per_sample = 5e-5};
  EXPECT_DOUBLE_EQ(not_faster(offloaded, {line}).seconds_per_sample, 1.02e-4);
  EXPECT_DOUBLE_EQ(not_faster(offloaded, {line}).seconds, 1.02e-3);
  EXPECT_DOUBLE_EQ(not_faster(offloaded, {single}).seconds_per_sample, 5e-5);
  EXPECT_DOUBLE_EQ(not_faster(offloaded, {}).seconds_per_sample, 5e-5);
  EXPECT_EQ(least_seconds_per_sample({}), std::nullopt);
  EXPECT_EQ(least_seconds_per_sample({single}), std::nullopt);
  EXPECT_EQ(least_seconds_per_sample({single, line}), 1e-4);
}

TEST(PartialOffload, TakesTimeOnlyWhereCopiesTakeLongerThanThePass) {
  MemoryCosts some{.passes = in_one_pass_or_several({kept(ActivationFormat::Lossless, 4, 1e-4),
                                                     kept(ActivationFormat::Offloaded, 0, 3e-4)})};
  add_partial_offload(some);
  ASSERT_EQ(some.passes.size(), 4u + 2 * 3);
  const PassCost& quarter = some.passes[4];
  EXPECT_EQ(quarter.offload_share, 0.25);
  EXPECT_DOUBLE_EQ(quarter.bytes_per_sample, 3.0 * kMiB);
  EXPECT_DOUBLE_EQ(quarter.seconds_per_sample, 1.02e-4) << "hidden";
  EXPECT_DOUBLE_EQ(some.passes[6].seconds_per_sample, 0.75 * 3e-4) << "the bus is full";
  // One pass of 64: 316 MiB with everything kept, 252 with a quarter offloaded, 60 with all.
  const auto at = [&](std::int64_t budget) {
    return plan_memory(memory_plans(some, {.batch = 64}), budget * kMiB)->pass;
  };
  EXPECT_EQ(at(320).activations, ActivationFormat::Lossless);
  EXPECT_EQ(at(260).offload_share, 0.25);
  EXPECT_TRUE(same_means({.pass = quarter}, {.pass = some.passes[5]})) << "one of them is measured";
}

TEST(PartialRecomputation, LiesBetweenNothingAndAll) {
  PassCost all = kept(ActivationFormat::Raw, 1, 1.4e-4);
  all.recompute_segments = 1;
  MemoryCosts some{.passes = in_one_pass_or_several({kept(ActivationFormat::Raw, 4, 1e-4), all})};
  add_partial_recomputation(some);
  ASSERT_EQ(some.passes.size(), 4u + 2 * 3);
  const PassCost& half = some.passes[5];
  EXPECT_EQ(half.recompute_segments, 0.5);
  EXPECT_DOUBLE_EQ(half.bytes_per_sample, 2.5 * kMiB);
  EXPECT_DOUBLE_EQ(half.seconds_per_sample, 1.2e-4);
  EXPECT_TRUE(same_means({.pass = half}, {.pass = all})) << "one of them is measured";
  EXPECT_FALSE(same_means({.pass = half}, {.pass = some.passes.front()}));
}

TEST(PartialOffload, NeedsAPassThatOffloadsNothing) {
  MemoryCosts none{
      .passes = {kept(ActivationFormat::Raw, 4, 1e-4), kept(ActivationFormat::Offloaded, 0, 3e-4)}};
  add_partial_offload(none);
  EXPECT_EQ(none.passes.size(), 2u);
  MemoryCosts single{.passes = {kept(ActivationFormat::Lossless, 0, 1e-2),
                                kept(ActivationFormat::Offloaded, 0, 3e-4)}};
  single.passes.front().largest = 1;
  add_partial_offload(single);
  EXPECT_EQ(single.passes.size(), 2u) << "whose cost per sample is known";
}

}  // namespace
}  // namespace triaccel
