#include <gtest/gtest.h>

#include <cmath>

#include "triaccel/policies/batch/batch_policy.h"
#include "triaccel/policies/batch/batch_rules.h"

namespace triaccel {
namespace {

StepPlan plan_of(std::int64_t batch, std::int64_t micro) {
  return {.batch_size = batch, .micro_batch_size = micro, .layers = {LayerPlan{}}};
}

GradientNoise noise_of(double noise, double signal) {
  GradientNoise measured(1);
  measured.add({.layers = {{.gradient_noise = noise, .gradient_signal = signal}}});
  return measured;
}

TEST(PaperBatch, GrowsShrinksAndStays) {
  const BatchOptions options{.rho_low = 0.8, .rho_high = 0.9, .delta_up = 16, .delta_down = 32};
  EXPECT_EQ(paper_batch(96, 79, 100, options), 112);
  EXPECT_EQ(paper_batch(96, 80, 100, options), 96);
  EXPECT_EQ(paper_batch(96, 90, 100, options), 96);
  EXPECT_EQ(paper_batch(96, 91, 100, options), 64);
}

TEST(GradientNoise, ScaleIsNoiseOverSignal) {
  EXPECT_FALSE(GradientNoise(1).scale());
  EXPECT_DOUBLE_EQ(*noise_of(64, 2).scale(), 32);
  EXPECT_FALSE(noise_of(64, -1).scale()) << "no mean stands out of the noise";
  EXPECT_EQ(noise_of(64, -1).signal(), 0);
}

TEST(GradientNoise, AveragesNoiseAndSignalApart) {
  GradientNoise noise = noise_of(64, 2);
  noise.add({.layers = {{.gradient_noise = 128, .gradient_signal = 6}}});
  EXPECT_DOUBLE_EQ(noise.noise(), 80);
  EXPECT_DOUBLE_EQ(noise.signal(), 3);
  noise.add({.skipped = "no room", .layers = {{.gradient_noise = 1e9}}});
  noise.add({.layers = {{.eigenvalues = {1.0}}}});  // a probe without per-sample gradients
  EXPECT_DOUBLE_EQ(noise.of_layer(0), 80);
}

TEST(RateForBatch, FollowsItsRule) {
  const GradientNoise unknown(1);
  EXPECT_DOUBLE_EQ(rate_for_batch(RateRule::None, 64, 256, unknown), 1);
  EXPECT_DOUBLE_EQ(rate_for_batch(RateRule::Linear, 64, 256, unknown), 4);
  EXPECT_DOUBLE_EQ(rate_for_batch(RateRule::Linear, 64, 32, unknown), 0.5);
  EXPECT_DOUBLE_EQ(rate_for_batch(RateRule::Sqrt, 64, 256, unknown), 2);
  EXPECT_DOUBLE_EQ(rate_for_batch(RateRule::AdaScale, 64, 256, unknown), 2);
}

TEST(RateForBatch, AdaScaleLiesBetweenNothingAndLinear) {
  EXPECT_DOUBLE_EQ(rate_for_batch(RateRule::AdaScale, 64, 256, noise_of(256, 1)), 5.0 / 2);
  EXPECT_DOUBLE_EQ(rate_for_batch(RateRule::AdaScale, 64, 256, noise_of(256, -1)), 4);
  EXPECT_NEAR(rate_for_batch(RateRule::AdaScale, 64, 256, noise_of(1e-9, 1)), 1, 1e-9);
  EXPECT_LT(rate_for_batch(RateRule::AdaScale, 64, 32, noise_of(256, 1)), 1);
}

TEST(PassSizes, AreBucketsInElasticMode) {
  const PassSizes sizes({.largest = 100}, plan_of(96, 96));
  EXPECT_EQ(sizes.at_most(95), 88);
  EXPECT_EQ(sizes.at_most(99), 96);
  EXPECT_EQ(sizes.at_most(1e9), 100);
  EXPECT_EQ(sizes.at_most(-5), 8);
  EXPECT_EQ(sizes.above(8), 16);
  EXPECT_EQ(sizes.above(96), 100);
  EXPECT_EQ(sizes.above(100), 100);
  EXPECT_EQ(sizes.below(96), 88);
  EXPECT_EQ(sizes.below(8), 8);
}

TEST(PassSizes, ArePowersOfTwoBelowTheBucket) {
  const PassSizes sizes({.smallest = 1}, plan_of(96, 96));
  EXPECT_EQ(sizes.at_most(7), 4);
  EXPECT_EQ(sizes.above(1), 2);
  EXPECT_EQ(sizes.above(5), 8);
  EXPECT_EQ(sizes.below(4), 2);
}

TEST(PassSizes, AreEqualPartsOfTheBatchInMicroMode) {
  const PassSizes sizes({.mode = BatchMode::Micro, .smallest = 1}, plan_of(96, 96));
  EXPECT_EQ(sizes.at_most(95), 48);
  EXPECT_EQ(sizes.at_most(40), 32);
  EXPECT_EQ(sizes.above(48), 96);
  EXPECT_EQ(sizes.above(32), 48);
  EXPECT_EQ(sizes.below(96), 48);
  EXPECT_EQ(sizes.above(96), 96);
  StepPlan plan = plan_of(96, 96);
  sizes.set(plan, 32);
  EXPECT_EQ(plan, plan_of(96, 32));
}

TEST(PassSizes, KeepTheNumberOfPassesInElasticMode) {
  const PassSizes sizes({}, plan_of(96, 48));
  StepPlan plan = plan_of(96, 48);
  sizes.set(plan, 64);
  EXPECT_EQ(plan, plan_of(128, 64));
  sizes.set(plan, 2);  // below the smallest batch there are more passes instead
  EXPECT_EQ(plan, plan_of(8, 2));
}

TEST(PassSizes, AreNoneThatTheNetworkCannotTake) {
  EXPECT_EQ(PassSizes({.smallest = 8, .smallest_pass = 2}, plan_of(96, 2)).smallest(), 2);
  EXPECT_EQ(PassSizes({.smallest = 8, .smallest_pass = 1}, plan_of(96, 2)).smallest(), 1);
}

/// A policy and what a tick tells it; the limit is 1000 bytes.
struct PolicyCase {
  ControlOptions options;
  StepPlan plan = plan_of(96, 96);
  BatchPolicy policy{options, plan};
  StepReport report{.memory = {.limit = 1000}};
  PolicyEvents events = {};

  /// Bytes of the limit that a batch cannot use.
  void fix(std::int64_t data, std::int64_t weights = 0, std::int64_t optimizer = 0) {
    auto& by_purpose = report.memory.peak_by_purpose;
    by_purpose[static_cast<std::size_t>(MemoryPurpose::Data)] = data;
    by_purpose[static_cast<std::size_t>(MemoryPurpose::Weights)] = weights;
    by_purpose[static_cast<std::size_t>(MemoryPurpose::Optimizer)] = optimizer;
  }

  StepPlan tick(std::int64_t peak, const GradientNoise& noise = GradientNoise(1)) {
    report.interval_samples = 25 * plan.batch_size;
    report.memory.peak = peak;
    events.clear();
    StepPlan next = plan;
    policy.apply(report, plan, noise, next, events);
    return plan = next;
  }
};

ControlOptions paper(BatchOptions batch = {}) {
  batch.rate = RateRule::None;
  return {.set = PolicySet::Paper, .batch = batch};
}

TEST(PaperBatchPolicy, MovesByDelta) {
  PolicyCase c{.options = paper()};
  EXPECT_EQ(c.tick(500), plan_of(112, 112));
  EXPECT_EQ(c.tick(900), plan_of(112, 112));
  EXPECT_EQ(c.tick(950), plan_of(96, 96));
  EXPECT_EQ(c.events.size(), 1u);
}

TEST(PaperBatchPolicy, TakesSharesOfTheWholeLimit) {
  PolicyCase c{.options = paper()};
  c.fix(800, 50, 50);
  EXPECT_EQ(c.tick(940), plan_of(80, 80)) << "60 of the 100 bytes a batch can use are free";
}

TEST(PaperBatchPolicy, KeepsTheNumberOfPasses) {
  PolicyCase c{.options = paper(), .plan = plan_of(96, 48)};
  EXPECT_EQ(c.tick(500), plan_of(112, 56));
}

TEST(PaperBatchPolicy, MovesThePassAloneInMicroMode) {
  PolicyCase c{.options = paper({.mode = BatchMode::Micro}), .plan = plan_of(96, 48)};
  EXPECT_EQ(c.tick(500), plan_of(96, 64));
  EXPECT_EQ(c.tick(950), plan_of(96, 48));
  for (int i = 0; i < 9; ++i) c.tick(10);
  EXPECT_EQ(c.plan, plan_of(96, 96));
}

TEST(PaperBatchPolicy, StopsAtItsBoundsAndSaysSo) {
  PolicyCase c{.options = paper({.smallest = 88, .largest = 104})};
  EXPECT_EQ(c.tick(500), plan_of(104, 104));
  EXPECT_EQ(c.events.size(), 2u);
  EXPECT_EQ(c.tick(500), plan_of(104, 104));
  EXPECT_TRUE(c.events.empty());
  EXPECT_EQ(c.tick(999), plan_of(88, 88));
}

TEST(PaperBatchPolicy, RoundsToTheBucketWithoutStandingStill) {
  PolicyCase c{.options = paper({.delta_up = 3, .delta_down = 3}), .plan = plan_of(100, 100)};
  EXPECT_EQ(c.tick(500).batch_size, 104);
  EXPECT_EQ(c.tick(950).batch_size, 96);
}

TEST(PaperBatchPolicy, IsVerbatimWithoutItsGuards) {
  ControlOptions options = paper({.delta_up = 3, .delta_down = 70});
  options.guards = {.batch_bounds = false, .batch_rounding = false};
  PolicyCase c{.options = options};
  EXPECT_EQ(c.tick(500).batch_size, 99);
  EXPECT_EQ(c.tick(950).batch_size, 29);
  EXPECT_EQ(c.tick(950).batch_size, 1) << "no batch is smaller than one sample";
}

TEST(PaperBatchPolicy, CountsOutOfMemoryAsAboveRhoHigh) {
  PolicyCase c{.options = paper()};
  c.plan.micro_batch_size = 48;
  c.report.memory_retries = 1;
  EXPECT_EQ(c.tick(500), plan_of(80, 80));
  EXPECT_EQ(c.events.size(), 2u);
}

TEST(BatchPolicy, JudgesByFullStepsOnly) {
  for (const PolicySet set : {PolicySet::Paper, PolicySet::Robust}) {
    BatchPolicy policy({.set = set}, plan_of(96, 96));
    StepPlan next = plan_of(96, 96);
    PolicyEvents events;
    policy.apply({.interval_samples = 95, .memory = {.peak = 10, .limit = 1000}}, plan_of(96, 96),
                 GradientNoise(1), next, events);
    EXPECT_EQ(next, plan_of(96, 96));
    // Nor by two short ones.
    policy.apply(
        {.interval_samples = 136, .largest_step = 68, .memory = {.peak = 10, .limit = 1000}},
        plan_of(96, 96), GradientNoise(1), next, events);
    EXPECT_EQ(next, plan_of(96, 96));
  }
}

TEST(BatchPolicy, StandsStillWhenOffOrWithoutALimit) {
  PolicyCase off{.options = {.batch = {.mode = BatchMode::Off}}};
  EXPECT_EQ(off.tick(10), plan_of(96, 96));
  PolicyCase unlimited{.options = {}};
  unlimited.report.memory.limit = 0;
  EXPECT_EQ(unlimited.tick(10), plan_of(96, 96));
}

TEST(BatchPolicy, ReturnsToItsFirstPassesWhenOffAndLaterEachTimeThatFails) {
  PolicyCase c{.options = {.batch = {.mode = BatchMode::Off, .retry_ticks = 4}}};
  const auto fail = [&] {
    c.policy.out_of_memory(c.plan);
    c.plan.micro_batch_size /= 2;
  };
  const auto ticks_until = [&](std::int64_t pass) {
    int ticks = 1;
    while (c.tick(10).micro_batch_size != pass && ticks < 100) ++ticks;
    return ticks;
  };
  fail();
  fail();
  EXPECT_EQ(ticks_until(48), 4);
  EXPECT_EQ(c.events.size(), 1u);
  EXPECT_EQ(ticks_until(96), 4);
  fail();
  EXPECT_EQ(ticks_until(96), 8);
  EXPECT_EQ(c.tick(10), plan_of(96, 96));
}

TEST(BatchPolicy, RemembersTheDeviceAndTheWaitAcrossARestart) {
  PolicyCase before{.options = {.batch = {.mode = BatchMode::Off, .retry_ticks = 4}}};
  before.policy.out_of_memory(before.plan);
  before.plan.micro_batch_size = 48;
  before.tick(10);
  std::vector<StateView> state;
  before.policy.save(state);
  StateMap saved;
  for (const StateView& view : state) saved.emplace(view.name, view);
  PolicyCase after{.options = before.options};
  after.policy.restore(saved);
  after.plan = before.plan;
  for (const std::int64_t pass : {48, 48, 96}) EXPECT_EQ(after.tick(10).micro_batch_size, pass);

  PolicyCase device{.options = paper({.device_bytes = 500})};
  state.clear();
  device.policy.save(state);
  saved.clear();
  for (const StateView& view : state) saved.emplace(view.name, view);
  PolicyCase resumed{.options = paper({.device_bytes = 90000})};
  resumed.policy.restore(saved);
  resumed.report.memory.limit = 0;
  EXPECT_EQ(resumed.tick(480).batch_size, 80) << "as where the run began";
}

TEST(BatchPolicy, TakesTheDeviceForALimitAndTheSmallerOfTheTwo) {
  PolicyCase device{.options = paper({.device_bytes = 500})};
  device.report.memory.limit = 0;
  EXPECT_EQ(device.tick(400).batch_size, 112);
  device.report.memory.limit = 10000;
  EXPECT_EQ(device.tick(480).batch_size, 96);
  device.report.memory.limit = 300;
  EXPECT_EQ(device.tick(290).batch_size, 80);
}

TEST(BatchPolicy, CountsReservedBytesWhereGraphsHideTheOthers) {
  PolicyCase c{.options = paper({.signal = MemorySignal::Reserved})};
  c.report.memory.reserved = 990;
  EXPECT_EQ(c.tick(10).batch_size, 80);
}

TEST(BatchPolicy, ScalesTheLearningRateWithTheBatch) {
  PolicyCase c{.options = {.batch = {.rate = RateRule::Linear}}};
  const StepPlan next = c.tick(100);
  EXPECT_EQ(next.batch_size, 192);
  EXPECT_FLOAT_EQ(next.learning_rate_scale, 2);
}

TEST(RobustBatchPolicy, GrowsAsTheScheduleLowersTheRateAndNoFurther) {
  PolicyCase c{.options = {.batch = {.rate = RateRule::Linear}}};
  const auto batch_at = [&c](double rate) {
    c.report.learning_rate = rate;
    return c.tick(100 + c.plan.batch_size / 10).batch_size;
  };
  for (double rate : {0.02, 0.06, 0.1, 0.1, 0.095}) EXPECT_EQ(batch_at(rate), 96) << rate;
  EXPECT_EQ(batch_at(0.05), 192);
  EXPECT_FLOAT_EQ(c.plan.learning_rate_scale, 2) << "0.1 again, and no more";
  EXPECT_EQ(batch_at(0.1), 192) << "what has grown stays";
  EXPECT_EQ(batch_at(0.01), 384);
}

TEST(RobustBatchPolicy, WaitsForTheNoiseScaleWhereItWillBeMeasured) {
  PolicyCase c{.options = {.batch = {.wait_for_noise = true, .rate = RateRule::None}}};
  EXPECT_EQ(c.tick(100).batch_size, 96);
  EXPECT_EQ(c.tick(100, noise_of(10000, 5)).batch_size, 192);
}

TEST(RobustBatchPolicy, GrowsAtAnyRateWhereItIsTold) {
  PolicyCase c{.options = {.batch = {.grow_as_rate_falls = false, .rate = RateRule::None}}};
  c.report.learning_rate = 0.1;
  EXPECT_EQ(c.tick(100).batch_size, 192);
}

TEST(RobustBatchPolicy, DoublesAtMostAndConvergesUnderRhoLow) {
  PolicyCase c{.options = {.batch = {.rate = RateRule::None}}};
  const auto bytes = [&c] { return 100 + 2 * c.plan.batch_size; };
  EXPECT_EQ(c.tick(bytes()).batch_size, 192);
  EXPECT_EQ(c.tick(bytes()).batch_size, 368);  // 836 bytes; the next bucket would pass 850
  for (int i = 0; i < 20; ++i) EXPECT_EQ(c.tick(bytes()).batch_size, 368);
}

TEST(RobustBatchPolicy, TakesSharesOfTheRoomThatFixedBytesLeave) {
  PolicyCase c{.options = {.batch = {.measurement_noise = 0, .rate = RateRule::None}}};
  c.report.memory.limit = 10000;
  c.fix(8000, 500, 500);
  const auto bytes = [&c] { return 9000 + 4 * c.plan.batch_size; };
  EXPECT_EQ(c.tick(bytes()).batch_size, 192);
  EXPECT_EQ(c.tick(bytes()).batch_size, 192) << "9768 bytes, and 216 samples would take 9864";
  c.report.memory.limit = 9500;
  EXPECT_EQ(c.tick(bytes()).batch_size, 104) << "85 % of 500 bytes";
  for (int i = 0; i < 20; ++i) EXPECT_EQ(c.tick(bytes()).batch_size, 104);
}

TEST(RobustBatchPolicy, SeesARaisedLimitByTheRoomItGives) {
  PolicyCase c{.options = {.batch = {.measurement_noise = 0, .rate = RateRule::None}}};
  c.report.memory.limit = 9500;
  c.fix(9000);
  const auto bytes = [&c] { return 9000 + 4 * c.plan.batch_size; };
  for (int i = 0; i < 10; ++i) EXPECT_EQ(c.tick(bytes()).batch_size, 104);
  c.report.memory.limit = 9650;  // 1.6 % more, and 30 % more room
  EXPECT_EQ(c.tick(bytes()).batch_size, 136);
}

TEST(RobustBatchPolicy, ShrinksAlongTheLineAndWaitsBeforeItGrows) {
  PolicyCase c{.options = {.batch = {.rate = RateRule::None}}};
  const auto bytes = [&c] { return 100 + 2 * c.plan.batch_size; };
  for (int i = 0; i < 5; ++i) c.tick(bytes());
  ASSERT_EQ(c.plan.batch_size, 368);
  c.report.memory.limit = 600;  // 368 take 836, 200 take 500 = 83 %
  EXPECT_EQ(c.tick(bytes()).batch_size, 200);
  c.report.memory.limit = 607;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(c.tick(bytes()).batch_size, 200);
  c.report.memory.limit = 1000;
  EXPECT_EQ(c.tick(bytes()).batch_size, 368);
}

TEST(RobustBatchPolicy, StaysAtAPlannedSizeWhileItsLimitHolds) {
  PolicyCase c{.options = {.batch = {.mode = BatchMode::Micro,
                                     .planned_pass = 32,
                                     .planned_limit = 1000,
                                     .rate = RateRule::None}},
               .plan = plan_of(96, 32)};
  for (const std::int64_t bytes : {100, 990, 100, 999}) EXPECT_EQ(c.tick(bytes), plan_of(96, 32));
  c.report.memory.limit = 2000;
  c.tick(500);
  EXPECT_GT(c.tick(500).micro_batch_size, 32);
  c.report.memory.limit = 400;
  for (int i = 0; i < 5; ++i) c.tick(100 + 9 * c.plan.micro_batch_size);
  EXPECT_LT(c.plan.micro_batch_size, 32);
  c.report.memory.limit = 1000;
  for (int i = 0; i < 20; ++i) c.tick(100 + 9 * c.plan.micro_batch_size);
  EXPECT_EQ(c.plan, plan_of(96, 32)) << "and no further";
}

TEST(RobustBatchPolicy, GrowsAnElasticBatchBackToItsPlannedSize) {
  PolicyCase c{.options = {.batch = {.planned_pass = 10,
                                     .planned_limit = 1000,
                                     .grow_as_rate_falls = false,
                                     .rate = RateRule::None}},
               .plan = plan_of(96, 10)};
  const auto bytes = [&c] { return 100 + 10 * c.plan.micro_batch_size; };
  EXPECT_EQ(c.tick(bytes()), plan_of(96, 10));
  c.plan = plan_of(50, 5);  // as after running out of memory
  for (int i = 0; i < 20; ++i) c.tick(bytes());
  EXPECT_EQ(c.plan, plan_of(96, 10)) << "although passes are multiples of 8";
}

TEST(RobustBatchPolicy, KeepsBelowASizeThatFailed) {
  PolicyCase c{.options = {.batch = {.rate = RateRule::None}}};
  const auto bytes = [&c] { return 100 + c.plan.batch_size; };
  c.policy.out_of_memory(c.plan);
  c.plan.micro_batch_size = 48;
  c.report.memory_retries = 1;
  EXPECT_EQ(c.tick(1000), plan_of(48, 48));
  c.report.memory_retries = 0;
  for (int i = 0; i < 30; ++i) EXPECT_LT(c.tick(bytes()).batch_size, 96);
  EXPECT_GE(c.plan.batch_size, 72);
  c.report.memory.limit = 2000;
  for (int i = 0; i < 5; ++i) c.tick(bytes());
  EXPECT_GT(c.plan.batch_size, 96) << "more room, another world";
}

TEST(RobustBatchPolicy, StopsGrowingAtTheNoiseScaleButNotBelowTheStart) {
  PolicyCase c{.options = {.batch = {.kappa = 2, .rate = RateRule::None}}};
  for (int i = 0; i < 5; ++i) c.tick(10, noise_of(64, 1));
  EXPECT_EQ(c.plan.batch_size, 128);
  PolicyCase small{.options = {.batch = {.rate = RateRule::None}}};
  for (int i = 0; i < 5; ++i) small.tick(10, noise_of(4, 1));
  EXPECT_EQ(small.plan.batch_size, 96);
  PolicyCase uncapped{.options = {.batch = {.kappa = 0, .rate = RateRule::None}}};
  for (int i = 0; i < 5; ++i) uncapped.tick(10, noise_of(4, 1));
  EXPECT_EQ(uncapped.plan.batch_size, 384);
}

TEST(RobustBatchPolicy, DoesNotGrowWhileThePrecisionsChange) {
  BatchPolicy policy({}, plan_of(96, 96));
  StepPlan next = plan_of(96, 96);
  next.layers[0].compute = Precision::Bf16;
  PolicyEvents events;
  const StepReport report{.interval_samples = 960, .memory = {.peak = 10, .limit = 1000}};
  policy.apply(report, plan_of(96, 96), GradientNoise(1), next, events);
  EXPECT_EQ(next.batch_size, 96);
  const StepPlan ran = next;
  policy.apply(report, ran, GradientNoise(1), next, events);
  EXPECT_EQ(next.batch_size, 192);
}

TEST(RobustBatchPolicy, GivesNoSamplesAwayWhereThatSavesNothing) {
  PolicyCase c{.options = {}};
  c.tick(970);  // one size says nothing about the slope …
  ASSERT_LT(c.plan.batch_size, 96);
  for (int i = 0; i < 20; ++i) c.tick(970);
  EXPECT_GT(c.plan.batch_size, 8) << "… several do: it is flat";
}

}  // namespace
}  // namespace triaccel
