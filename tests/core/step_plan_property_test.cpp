#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "triaccel/core/step_plan.h"

namespace triaccel {
namespace {

StepPlan random_plan() {
  StepPlan plan;
  plan.batch_size = *rc::gen::inRange<std::int64_t>(1, 4096);
  plan.micro_batch_size = *rc::gen::inRange<std::int64_t>(1, plan.batch_size + 1);
  const auto layers = *rc::gen::inRange<std::size_t>(0, 12);
  for (std::size_t i = 0; i < layers; ++i)
    plan.layers.push_back(
        {.compute = static_cast<Precision>(*rc::gen::inRange(0, 4)),
         .saved = static_cast<ActivationFormat>(*rc::gen::inRange(0, 3)),
         .gradient = static_cast<GradientSource>(*rc::gen::inRange(0, 2)),
         .learning_rate_scale = 0.25f * static_cast<float>(*rc::gen::inRange(-8, 8))});
  const auto saved = *rc::gen::inRange<std::size_t>(0, 6);
  for (std::size_t i = 0; i < saved; ++i)
    plan.saved.push_back({.codec = static_cast<SavedCodec>(*rc::gen::inRange(0, kSavedCodecs)),
                          .eighths = *rc::gen::inRange<std::uint8_t>(0, 65)});
  return plan;
}

RC_GTEST_PROP(PlanHashProperty, AgreesWithEquality, ()) {
  const StepPlan a = random_plan();
  const StepPlan b = random_plan();
  RC_ASSERT((a == b) == (plan_hash(a) == plan_hash(b)));
  RC_ASSERT(plan_hash(a) == plan_hash(StepPlan(a)));
}

RC_GTEST_PROP(PlanHashProperty, ShapeHashDependsOnShapeAlone, ()) {
  const StepPlan plan = random_plan();
  StepPlan other = plan;
  for (LayerPlan& layer : other.layers) layer.learning_rate_scale += 1.0f;
  RC_ASSERT(shape_hash(plan) == shape_hash(other));
}

}  // namespace
}  // namespace triaccel
