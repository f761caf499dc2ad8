#include "triaccel/core/plan_state.h"

#include <gtest/gtest.h>

namespace triaccel {
namespace {

StateMap as_map(const StepPlan& plan) {
  StateMap map;
  for (const StateView& view : plan_state(plan)) map[view.name] = view;
  return map;
}

const StepPlan kPlan{
    .batch_size = 96,
    .micro_batch_size = 48,
    .learning_rate_scale = 0.5f,
    .layers = {{.compute = Precision::Bf16, .learning_rate_scale = 0.25f},
               {.compute = Precision::Fp16, .gradient = GradientSource::ZerothOrder}}};

TEST(PlanState, ReadsBackThePlanItWrote) { EXPECT_EQ(plan_from(as_map(kPlan), 2), kPlan); }

TEST(PlanState, RefusesAPlanOfAnotherNetwork) {
  EXPECT_THROW(plan_from(as_map(kPlan), 3), StorageError);
}

TEST(PlanState, RefusesAChoiceItDoesNotKnow) {
  StateMap map = as_map(kPlan);
  const StateView wrong = number_state<std::int64_t>("plan/choices", {9, 0, 0, 0, 0, 0});
  map["plan/choices"] = wrong;
  EXPECT_THROW(plan_from(map, 2), StorageError);
}

TEST(PlanState, RefusesPassesLargerThanTheBatch) {
  StateMap map = as_map(kPlan);
  map["plan/sizes"] = number_state<std::int64_t>("plan/sizes", {16, 32});
  EXPECT_THROW(plan_from(map, 2), StorageError);
}

}  // namespace
}  // namespace triaccel
