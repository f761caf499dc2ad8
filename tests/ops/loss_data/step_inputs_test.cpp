#include "triaccel/ops/loss_data/step_inputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

const c10::Device kCpu(c10::kCPU);

std::vector<LayerPlan> layers_with_scales(float first, float second) {
  std::vector<LayerPlan> layers(2);
  layers[0].learning_rate_scale = first;
  layers[1].learning_rate_scale = second;
  return layers;
}

TEST(StepInputs, PutsNumbersAndRatesInPlace) {
  StepInputs inputs(2, /*has_zeroth_order=*/false, kCpu);
  EXPECT_TRUE(inputs.make_room(5));
  const at::Tensor all = at::arange(100);
  inputs.set(layers_with_scales(1, 0.5f), all.narrow(0, 20, 5), 0.25, 0);
  inputs.place();
  EXPECT_TRUE(at::equal(inputs.ids(), at::arange(20, 25)));
  EXPECT_TRUE(at::equal(inputs.learning_rates(), at::tensor({0.25f, 0.125f})));
}

TEST(StepInputs, StayWhereTheyAreUntilMoreRoomIsNeeded) {
  StepInputs inputs(2, /*has_zeroth_order=*/false, kCpu);
  inputs.make_room(7);
  const at::Tensor all = at::arange(100);
  inputs.set(layers_with_scales(1, 1), all.narrow(0, 3, 7), 1, 0);
  const void* const place = inputs.ids().data_ptr();
  EXPECT_FALSE(inputs.make_room(4));
  inputs.set(layers_with_scales(1, 2), all.narrow(0, 50, 4), 1, 0);
  inputs.place();
  EXPECT_EQ(inputs.ids().data_ptr(), place);
  EXPECT_TRUE(at::equal(inputs.ids(), at::arange(50, 54)));
  EXPECT_TRUE(at::equal(inputs.learning_rates(), at::tensor({1.0f, 2.0f})));
  EXPECT_TRUE(inputs.make_room(8));
}

TEST(StepInputs, GiveLayersTrainedByTheLossAloneTheirOwnRate) {
  StepInputs inputs(2, /*has_zeroth_order=*/true, kCpu);
  inputs.make_room(1);
  std::vector<LayerPlan> layers = layers_with_scales(2, 4);
  layers[1].gradient = GradientSource::ZerothOrder;
  inputs.set(layers, at::arange(1), 0.5, 0.125);
  inputs.place();
  EXPECT_TRUE(at::equal(inputs.learning_rates(), at::tensor({1.0f, 0.5f})));
}

TEST(StepInputs, RefuseNumbersOfAnotherKind) {
  StepInputs inputs(2, /*has_zeroth_order=*/false, kCpu);
  inputs.make_room(4);
  const std::vector<LayerPlan> layers = layers_with_scales(1, 1);
  EXPECT_THROW(inputs.set(layers, at::arange(4, at::kInt), 1, 0), UsageError);
  EXPECT_THROW(inputs.set(layers, at::arange(8).slice(0, 0, 8, 2), 1, 0), UsageError);
}

}  // namespace
}  // namespace triaccel
