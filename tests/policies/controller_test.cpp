#include "triaccel/policies/controller.h"

#include <gtest/gtest.h>

#include "triaccel/policies/early_stopping.h"

namespace triaccel {
namespace {

TEST(NextPlan, KeepsThePlanOfAFixedMethod) {
  const StepPlan plan{.batch_size = 96, .micro_batch_size = 48, .layers = {2, LayerPlan{}}};
  EXPECT_EQ(next_plan(StepReport{.loss = 3}, plan), plan);
}

TEST(SmallerPlan, HalvesTheForwardPassAndKeepsTheStep) {
  const auto smaller = smaller_plan({.batch_size = 96, .micro_batch_size = 96});
  ASSERT_TRUE(smaller);
  EXPECT_EQ(smaller->batch_size, 96);
  EXPECT_EQ(smaller->micro_batch_size, 48);
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

}  // namespace
}  // namespace triaccel
