#include "triaccel/core/step_plan.h"

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
               {.compute = Precision::Fp16,
                .saved = ActivationFormat::Compressed,
                .gradient = GradientSource::ZerothOrder}},
    .saved = {{},
              {.codec = SavedCodec::Groups, .eighths = 20},
              {.codec = SavedCodec::Frequency, .block = 8, .band_eighths = {64, 40, 16, 9, 0}},
              {.codec = SavedCodec::Frequency, .block = 4, .band_eighths = {64, 40, 16, 9, 8}},
              {.codec = SavedCodec::Registered, .registered = 3}}};

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

TEST(PlanState, ReadsAPlanFromBeforeTensorsHadCodecs) {
  StateMap map = as_map(kPlan);
  map.erase("plan/saved");
  StepPlan without = kPlan;
  without.saved.clear();
  EXPECT_EQ(plan_from(map, 2), without);
}

TEST(PlanState, IgnoresThePredictedBlocksOfEarlierVersions) {
  StateMap map = as_map(kPlan);
  map["plan/predicted"] = number_state<std::uint8_t>("plan/predicted", {0, 0, 0, 21, 0});
  EXPECT_EQ(plan_from(map, 2), kPlan);
}

TEST(PlanState, RefusesACodecItDoesNotKnowAndHalfATensor) {
  StateMap map = as_map(kPlan);
  map["plan/saved"] = number_state<std::uint8_t>("plan/saved", {200, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_THROW(plan_from(map, 2), StorageError);
  map["plan/saved"] = number_state<std::uint8_t>("plan/saved", {0, 0, 0, 0});
  EXPECT_THROW(plan_from(map, 2), StorageError);
}

TEST(PlanState, RefusesPassesLargerThanTheBatch) {
  StateMap map = as_map(kPlan);
  map["plan/sizes"] = number_state<std::int64_t>("plan/sizes", {16, 32});
  EXPECT_THROW(plan_from(map, 2), StorageError);
}

}  // namespace
}  // namespace triaccel
