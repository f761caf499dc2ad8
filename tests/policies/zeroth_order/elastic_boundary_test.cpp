#include "triaccel/policies/zeroth_order/elastic_boundary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"

namespace triaccel {
namespace {

StepPlan elastic_plan(std::int64_t layers, std::int64_t bp_layers) {
  StepPlan plan{.batch_size = 64,
                .micro_batch_size = 64,
                .layers = {static_cast<std::size_t>(layers), LayerPlan{}}};
  set_boundary(plan, bp_layers);
  return plan;
}

TEST(Boundary, LiesBeforeTheLastLayers) {
  const StepPlan plan = elastic_plan(3, 1);
  EXPECT_EQ(plan.layers[0].gradient, GradientSource::ZerothOrder);
  EXPECT_EQ(plan.layers[1].gradient, GradientSource::ZerothOrder);
  EXPECT_EQ(plan.layers[2].gradient, GradientSource::Backprop);
  for (const std::int64_t n : {0, 1, 2, 3}) EXPECT_EQ(bp_layers_of(elastic_plan(3, n)), n);
  EXPECT_THROW(elastic_plan(3, 4), UsageError);
}

/// 10 bytes a sample, and 7 more for each layer by backpropagation.
auto fits_in(std::int64_t bytes, int* tries = nullptr) {
  return [=](const BoundaryFit& fit) {
    if (tries != nullptr) ++*tries;
    return fit.micro_batch * (10 + 7 * fit.bp_layers) <= bytes;
  };
}

TEST(SearchBoundary, TakesTheMostBackpropagationThatFitsAndThenTheLargestPass) {
  EXPECT_EQ(search_boundary(5, 64, 2, fits_in(90)), (BoundaryFit{5, 2}));
  EXPECT_EQ(search_boundary(5, 64, 2, fits_in(80)), (BoundaryFit{4, 2}));
  EXPECT_EQ(search_boundary(5, 64, 2, fits_in(20)), (BoundaryFit{0, 2}));
  EXPECT_EQ(search_boundary(5, 64, 2, fits_in(10'000)), (BoundaryFit{5, 64}));
  EXPECT_EQ(search_boundary(5, 64, 2, fits_in(45 * 33)), (BoundaryFit{5, 32}));
  EXPECT_EQ(search_boundary(5, 64, 2, fits_in(19)), std::nullopt);
}

TEST(SearchBoundary, TriesFewPlans) {
  int tries = 0;
  search_boundary(120, 1024, 1, fits_in(5000, &tries));
  EXPECT_LE(tries, 20);
}

StepReport report_of(double share, double loss) {
  StepReport report{.loss = loss};
  report.memory = {.peak = static_cast<std::int64_t>(1000 * share), .limit = 1000};
  return report;
}

TEST(BoundaryPolicy, GivesUpALayerAsSoonAsMemoryIsShort) {
  BoundaryPolicy policy({.largest = 5});
  StepPlan plan = elastic_plan(5, 3);
  PolicyEvents events;
  policy.apply(report_of(0.97, 1), plan, events);
  EXPECT_EQ(bp_layers_of(plan), 2);
  EXPECT_EQ(events.size(), 1u);
  policy.apply(report_of(0.97, 1), plan, events);
  policy.apply(report_of(0.97, 1), plan, events);
  EXPECT_EQ(bp_layers_of(plan), 1) << "the smallest";
}

TEST(BoundaryPolicy, TakesSharesOfTheRoomThatFixedBytesLeave) {
  BoundaryPolicy policy({.largest = 5});
  StepPlan plan = elastic_plan(5, 3);
  PolicyEvents events;
  StepReport report = report_of(0.98, 1);
  report.memory.peak_by_purpose[static_cast<std::size_t>(MemoryPurpose::Data)] = 960;
  policy.apply(report, plan, events);
  EXPECT_EQ(bp_layers_of(plan), 3) << "half of the rest is free";
  report.memory.peak = 999;
  policy.apply(report, plan, events);
  EXPECT_EQ(bp_layers_of(plan), 2);
}

TEST(BoundaryPolicy, AddsALayerOnlyWhenTheLossStandsStillAndMemoryIsThere) {
  BoundaryPolicy falling({.largest = 5}), still({.largest = 5}), full({.largest = 5});
  StepPlan a = elastic_plan(5, 2), b = a, c = a;
  PolicyEvents events;
  for (int tick = 0; tick < 60; ++tick) {
    falling.apply(report_of(0.5, 2.0 * std::pow(0.98, tick)), a, events);
    still.apply(report_of(0.5, 2), b, events);
    full.apply(report_of(0.9, 2), c, events);
  }
  EXPECT_EQ(bp_layers_of(a), 2);
  EXPECT_EQ(bp_layers_of(b), 5) << "one a dwell";
  EXPECT_EQ(bp_layers_of(c), 2);
}

TEST(BoundaryPolicy, DoesNotSwingBetweenTwoBoundaries) {
  BoundaryPolicy policy({.largest = 5});
  StepPlan plan = elastic_plan(5, 2);
  int moves = 0;
  for (int tick = 0; tick < 1000; ++tick) {
    const StepPlan before = plan;
    PolicyEvents events;
    policy.apply(report_of(bp_layers_of(plan) >= 3 ? 0.96 : 0.7, 2), plan, events);
    moves += plan == before ? 0 : 1;
  }
  EXPECT_LE(moves, 10);
  EXPECT_EQ(bp_layers_of(plan), 2);
}

TEST(BoundaryPolicy, AnswersOutOfMemoryAndGoesOnFromItsState) {
  BoundaryPolicy policy({.largest = 5});
  const auto smaller = policy.out_of_memory(elastic_plan(5, 2));
  ASSERT_TRUE(smaller.has_value());
  EXPECT_EQ(bp_layers_of(*smaller), 1);
  EXPECT_FALSE(policy.out_of_memory(elastic_plan(5, 1)).has_value());
  BoundaryPolicy restored({.largest = 5});
  StateMap saved;
  for (const StateView& view : policy.state()) saved.emplace(view.name, view);
  restored.restore(saved);
  StepPlan a = elastic_plan(5, 1), b = a;
  PolicyEvents events;
  for (int tick = 0; tick < 100; ++tick) {
    policy.apply(report_of(0.5, 2), a, events);
    restored.apply(report_of(0.5, 2), b, events);
    ASSERT_EQ(a, b) << tick;
  }
}

double noise(std::uint64_t tick) {
  return 0.1 * (static_cast<double>(unit_float(random_words(1, tick).words[0])) - 0.5);
}

TEST(LossAlarm, StaysSilentWhileTheLossFallsOrStands) {
  LossAlarm falling, standing;
  for (std::uint64_t tick = 0; tick < 3000; ++tick) {
    const double t = static_cast<double>(tick);
    EXPECT_FALSE(falling.after(0.2 + 2 * std::exp(-t / 500) + noise(tick), 0)) << tick;
    EXPECT_FALSE(standing.after(2.3 + 4 * noise(tick), 0)) << tick;
  }
}

TEST(LossAlarm, TellsOfARiseOnceAndAgainOfTheNext) {
  LossAlarm alarm;
  int alarms = 0;
  const auto run = [&](std::uint64_t from, std::uint64_t to, double slope) {
    for (std::uint64_t tick = from; tick < to; ++tick)
      alarms += alarm
                    .after(1 + slope * static_cast<double>(tick - from) + noise(tick),
                           static_cast<std::int64_t>(tick))
                    .has_value();
  };
  run(0, 100, 0);
  EXPECT_EQ(alarms, 0);
  run(100, 145, 0.005);
  EXPECT_EQ(alarms, 1);
  for (std::uint64_t tick = 0; tick < 500; ++tick)
    alarms += alarm.after(1.5 + noise(tick), 0).has_value();
  EXPECT_EQ(alarms, 2) << "it has gone on to rise, and then stands";
  EXPECT_FALSE(alarm.after(NAN, 0));
}

}  // namespace
}  // namespace triaccel
