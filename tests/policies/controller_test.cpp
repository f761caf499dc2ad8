#include "triaccel/policies/controller.h"

#include <gtest/gtest.h>

#include "tests/policies/simulated_device.h"
#include "triaccel/base/error.h"
#include "triaccel/policies/early_stopping.h"

namespace triaccel {
namespace {

constexpr BatchOptions kBatchOff{.mode = BatchMode::Off};

StepPlan two_layers() {
  return {.batch_size = 96,
          .micro_batch_size = 96,
          .layers = {2, LayerPlan{.compute = Precision::Bf16}}};
}

const std::vector<LayerKind> kKinds(2, LayerKind::Convolution);

/// A report in which every mechanism has a reason to act.
StepReport busy_report() {
  StepReport report{.interval_samples = 960,
                    .learning_rate = 0.1,
                    .memory = {.peak = 100, .limit = 1000},
                    .layers = {2, {.count = 100, .sum_of_squares = 1e-12}}};
  report.curvature = {.layers = {2, {.eigenvalues = {76.0}}}};
  report.layers[1].sum_of_squares = 1e12;
  return report;
}

ControlOptions eager_paper() {
  ControlOptions options = default_options(PolicySet::Paper);
  options.precision = {.automatic = false, .tau_low = 1e-9, .tau_high = 1e-3};
  options.curvature = {.alpha = 1.0 / 76, .automatic = false};
  return options;
}

TEST(Controller, KeepsThePlanWithEverythingOff) {
  Controller controller({.precision_on = false, .curvature_on = false, .batch = kBatchOff}, kKinds,
                        two_layers());
  const Decision decision = controller.next(busy_report(), two_layers());
  EXPECT_EQ(decision.plan, two_layers());
  EXPECT_TRUE(decision.events.empty());
}

TEST(Controller, AdjustsPrecisionRatesAndBatchInOneTick) {
  Controller controller(eager_paper(), kKinds, two_layers());
  const Decision decision = controller.next(busy_report(), two_layers());
  EXPECT_EQ(decision.plan.layers[0].compute, Precision::Fp16);
  EXPECT_EQ(decision.plan.layers[1].compute, Precision::Fp32);
  EXPECT_FLOAT_EQ(decision.plan.layers[0].learning_rate_scale, 0.5f);
  EXPECT_EQ(decision.plan.batch_size, 112);
  EXPECT_FLOAT_EQ(decision.plan.learning_rate_scale, 1.0f);
  EXPECT_FALSE(decision.events.empty());
}

TEST(Controller, SwitchesEveryMechanismOnItsOwn) {
  const auto next = [](auto change) {
    ControlOptions options = eager_paper();
    change(options);
    return Controller(options, kKinds, two_layers()).next(busy_report(), two_layers()).plan;
  };
  const StepPlan all = next([](ControlOptions&) {});
  StepPlan expected = all;
  for (LayerPlan& layer : expected.layers) layer.compute = Precision::Bf16;
  EXPECT_EQ(next([](ControlOptions& o) { o.precision_on = false; }), expected);
  expected = all;
  for (LayerPlan& layer : expected.layers) layer.learning_rate_scale = 1;
  EXPECT_EQ(next([](ControlOptions& o) { o.curvature_on = false; }), expected);
  expected = all;
  expected.batch_size = expected.micro_batch_size = 96;
  EXPECT_EQ(next([](ControlOptions& o) { o.batch.mode = BatchMode::Off; }), expected);
}

TEST(Controller, CapsTheRateThatTheBatchWasGiven) {
  Controller controller({.precision_on = false, .batch = kBatchOff}, kKinds, two_layers());
  StepPlan current = two_layers();
  current.learning_rate_scale = 2;
  const StepPlan next = controller.next(busy_report(), current).plan;
  EXPECT_FLOAT_EQ(next.layers[0].learning_rate_scale, 0.25f);  // 3.8 / (2 * 0.1 * 76)
}

TEST(Controller, SaysFewThingsAtATime) {
  const std::vector<LayerKind> kinds(30, LayerKind::Linear);
  StepPlan plan = two_layers();
  plan.layers.resize(30, plan.layers[0]);
  StepReport report = busy_report();
  report.layers.resize(30, report.layers[0]);
  const Decision decision = Controller(eager_paper(), kinds, plan).next(report, plan);
  ASSERT_EQ(decision.events.size(), 8u);
  EXPECT_NE(decision.events.back().find("more"), std::string::npos);
}

TEST(Controller, AnswersOutOfMemoryWithSmallerPassesAndTheSameSamples) {
  Controller controller(
      ControlSetup{.plan = two_layers(), .kinds = kKinds, .options = {}, .smallest_pass = 2});
  const auto smaller = controller.out_of_memory(two_layers());
  ASSERT_TRUE(smaller);
  EXPECT_EQ(smaller->batch_size, 96);
  EXPECT_EQ(smaller->micro_batch_size, 48);
}

TEST(Controller, RefusesPlansAndOptionsThatCannotWork) {
  EXPECT_THROW(Controller({}, {}, two_layers()), UsageError);
  StepPlan plan = two_layers();
  plan.micro_batch_size = 97;
  EXPECT_THROW(Controller({}, kKinds, plan), UsageError);
  plan = two_layers();
  Controller controller({}, kKinds, plan);
  plan.layers.pop_back();
  EXPECT_THROW(controller.next({}, plan), UsageError);
}

TEST(CheckOptions, NamesTheFieldThatIsWrong) {
  const auto message = [](auto change) {
    ControlOptions options;
    change(options);
    try {
      check_options(options);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message([](ControlOptions&) {}), "accepted");
  EXPECT_NE(message([](ControlOptions& o) { o.precision.beta = 1; }).find("precision.beta"),
            std::string::npos);
  EXPECT_NE(message([](ControlOptions& o) { o.precision.tau_low = 1; }).find("tau_low"),
            std::string::npos);
  EXPECT_NE(message([](ControlOptions& o) { o.curvature.alpha = -1; }).find("curvature.alpha"),
            std::string::npos);
  EXPECT_NE(message([](ControlOptions& o) { o.batch.rho_low = 0.99; }).find("batch.rho_low"),
            std::string::npos);
  EXPECT_NE(message([](ControlOptions& o) { o.batch.largest = 1; }).find("batch.largest"),
            std::string::npos);
}

TEST(Controller, RestoresAllOrNothing) {
  Controller controller(eager_paper(), kKinds, two_layers());
  controller.next(busy_report(), two_layers());
  StateMap saved;
  for (const StateView& view : controller.state()) saved[view.name] = view;
  saved.erase("batch.bytes");
  Controller other(eager_paper(), kKinds, two_layers());
  EXPECT_THROW(other.restore(saved), StorageError);
  Controller untouched(eager_paper(), kKinds, two_layers());
  EXPECT_EQ(other.next(busy_report(), two_layers()).events,
            untouched.next(busy_report(), two_layers()).events);
}

TEST(SmallerPlan, ReachesOneSampleAndThenGivesUp) {
  std::optional<StepPlan> plan = StepPlan{.batch_size = 100, .micro_batch_size = 100};
  int shrinks = 0;
  while (plan->micro_batch_size > 1) {
    plan = smaller_plan(*plan);
    ASSERT_TRUE(plan);
    ASSERT_LE(++shrinks, 7);
  }
  EXPECT_FALSE(smaller_plan(*plan));
}

TEST(SmallerPlan, StopsAtTheSmallestPassTheNetworkCanTake) {
  const auto smaller = smaller_plan({.batch_size = 8, .micro_batch_size = 3}, 2);
  ASSERT_TRUE(smaller);
  EXPECT_EQ(smaller->micro_batch_size, 2);
  EXPECT_FALSE(smaller_plan(*smaller, 2));
}

TEST(PlanSchedule, HoldsEachPlanUntilTheNext) {
  const StepPlan current{.batch_size = 1, .micro_batch_size = 1};
  const StepPlan a{.batch_size = 96, .micro_batch_size = 96};
  const StepPlan b{.batch_size = 128, .micro_batch_size = 64};
  const PlanSchedule schedule({{.step = 10, .plan = a}, {.step = 25, .plan = b}});
  EXPECT_EQ(schedule.plan_after(9, current), current);
  EXPECT_EQ(schedule.plan_after(10, current), a);
  EXPECT_EQ(schedule.plan_after(24, current), a);
  EXPECT_EQ(schedule.plan_after(25, current), b);
  EXPECT_EQ(schedule.plan_after(1000000, current), b);
}

TEST(PlanSchedule, RefusesWhatCannotBeReplayed) {
  const StepPlan plan{.batch_size = 96, .micro_batch_size = 96};
  EXPECT_THROW(PlanSchedule({}), UsageError);
  EXPECT_THROW(PlanSchedule({{5, plan}, {5, plan}}), UsageError);
  EXPECT_THROW(PlanSchedule({{0, {.batch_size = 8, .micro_batch_size = 9}}}), UsageError);
  EXPECT_THROW(PlanSchedule({{0, plan}}).plan_after(0, two_layers()), UsageError);
}

TEST(EarlyStopping, CountsEvaluationsWithoutImprovement) {
  EarlyStopping stopping{.patience = 2};
  EXPECT_FALSE(stopping.should_stop_after(1.0));
  EXPECT_FALSE(stopping.should_stop_after(1.1));
  EXPECT_FALSE(stopping.should_stop_after(0.9));
  EXPECT_FALSE(stopping.should_stop_after(0.95));
  EXPECT_TRUE(stopping.should_stop_after(0.9));
}

TEST(EarlyStopping, NeverStopsWithoutPatience) {
  EarlyStopping stopping;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(stopping.should_stop_after(1.0));
}

/// ResNet-18 on CIFAR-10 in 400 MiB, as on a GPU whose pools keep what passes once took.
SimulatedDevice pooled_device() {
  constexpr double kMiB = 1 << 20;
  return {.fixed = 150 * kMiB,
          .sample_fp32 = 1.6 * kMiB,
          .limit = 400 * kMiB,
          .known = 1,
          .pools = true};
}

TEST(Controller, KeepsItsBatchWherePoolsKeepMemory) {
  for (const PolicySet set : {PolicySet::Paper, PolicySet::Robust}) {
    ControlOptions options = default_options(set);
    options.precision_on = options.curvature_on = false;
    options.batch.mode = BatchMode::Elastic;
    options.batch.grow_as_rate_falls = false;
    StepPlan plan{.batch_size = 96, .micro_batch_size = 96, .layers = {{}}};
    Controller controller(options, {LayerKind::Convolution}, plan);
    SimulatedDevice device = pooled_device();
    plan = controller.first_plan();
    std::int64_t smallest = plan.batch_size;
    for (int tick = 0; tick < 300; ++tick) {
      const SimulatedTick ran = run_interval(device, controller, plan);
      plan = controller.next(ran.report, ran.ran).plan;
      smallest = std::min(smallest, plan.batch_size);
    }
    EXPECT_GE(smallest, 64) << (set == PolicySet::Paper ? "paper" : "robust");
    EXPECT_GE(plan.batch_size, 96) << (set == PolicySet::Paper ? "paper" : "robust");
  }
}

}  // namespace
}  // namespace triaccel
