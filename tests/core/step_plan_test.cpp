#include "triaccel/core/step_plan.h"

#include <gtest/gtest.h>

namespace triaccel {
namespace {

StepPlan three_layers() {
  return {.batch_size = 96, .micro_batch_size = 96, .layers = {3, LayerPlan{}}};
}

TEST(PlanHash, IsEqualForEqualPlans) {
  EXPECT_EQ(plan_hash(three_layers()), plan_hash(three_layers()));
}

TEST(PlanHash, SeesEveryField) {
  const std::uint64_t before = plan_hash(three_layers());
  StepPlan plan = three_layers();
  plan.batch_size = 97;
  EXPECT_NE(plan_hash(plan), before);
  plan = three_layers();
  plan.micro_batch_size = 48;
  EXPECT_NE(plan_hash(plan), before);
  plan = three_layers();
  plan.layers[1].compute = Precision::Bf16;
  EXPECT_NE(plan_hash(plan), before);
  plan = three_layers();
  plan.layers[2].gradient = GradientSource::ZerothOrder;
  EXPECT_NE(plan_hash(plan), before);
  plan = three_layers();
  plan.layers[0].learning_rate_scale = 0.5f;
  EXPECT_NE(plan_hash(plan), before);
  plan = three_layers();
  plan.layers[1].saved = ActivationFormat::Lossless;
  EXPECT_NE(plan_hash(plan), before);
}

TEST(ShapeHash, SeesEveryFieldOfASavedTensor) {
  const auto hash_of = [](const SavedPlan& saved) {
    StepPlan plan = three_layers();
    plan.saved = {saved};
    return shape_hash(plan);
  };
  const std::uint64_t raw = hash_of({});
  EXPECT_NE(shape_hash(three_layers()), raw) << "a tensor that is told of";
  EXPECT_NE(hash_of({.codec = SavedCodec::Mask}), raw);
  EXPECT_NE(hash_of({.block = 8}), raw);
  EXPECT_NE(hash_of({.eighths = 8}), raw);
  EXPECT_NE(hash_of({.registered = 8}), raw);
  for (std::size_t band = 0; band < kFrequencyBands; ++band) {
    SavedPlan saved;
    saved.band_eighths[band] = 8;
    EXPECT_NE(hash_of(saved), raw) << "band " << band;
  }
  StepPlan first = three_layers(), second = three_layers();
  first.saved = {{.codec = SavedCodec::Mask}, {}};
  second.saved = {{}, {.codec = SavedCodec::Mask}};
  EXPECT_NE(shape_hash(first), shape_hash(second));
}

TEST(ShapeHash, IgnoresLearningRates) {
  StepPlan plan = three_layers();
  plan.layers[0].learning_rate_scale = 0.5f;
  EXPECT_EQ(shape_hash(plan), shape_hash(three_layers()));
  plan.layers[0].compute = Precision::Fp16;
  EXPECT_NE(shape_hash(plan), shape_hash(three_layers()));
}

TEST(ShapeHash, TellsWhichLayerChanged) {
  StepPlan first = three_layers();
  StepPlan second = three_layers();
  first.layers[0].compute = Precision::Bf16;
  second.layers[1].compute = Precision::Bf16;
  EXPECT_NE(shape_hash(first), shape_hash(second));
}

}  // namespace
}  // namespace triaccel
