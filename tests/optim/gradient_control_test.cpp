#include "triaccel/optim/gradient_control.h"

#include <gtest/gtest.h>

#include "tests/optim/optimizer_case.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(GradientControl, ReportsTheUnscaledSignalsOfEachLayer) {
  OptimizerCase test;
  GradientControl control({.loss_scaling = true, .initial_loss_scale = 1024}, test.ours, 3);
  test.draw_gradients(1024);
  control.measure();
  const GradientReport report = control.read();
  ASSERT_EQ(report.layers.size(), 3u);
  double squares = 0;
  for (const at::Tensor& tensor : test.reference)
    squares += tensor.grad().to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(report.gradient_norm, std::sqrt(squares), 1e-6 * std::sqrt(squares));
  EXPECT_EQ(report.layers[1].count, 17 * 31 + 1);
  const float largest = std::max(test.reference[3].grad().abs().max().item<float>(),
                                 test.reference[4].grad().abs().item<float>());
  EXPECT_EQ(report.layers[1].absolute_maximum, largest);
  EXPECT_EQ(report.layers[2], LayerSignals{}) << "no parameter is of this layer";
}

TEST(GradientControl, HalvesTheLossScaleInDeviceMemoryAfterAnOverflow) {
  OptimizerCase test;
  GradientControl control({.loss_scaling = true}, test.ours, 2);
  const at::Tensor scale = control.loss_scale();
  EXPECT_EQ(scale.dim(), 0);
  EXPECT_EQ(scale.item<float>(), 65536);
  test.draw_gradients();
  test.ours[0].tensor.mutable_grad().fill_(std::numeric_limits<float>::quiet_NaN());
  control.measure();
  EXPECT_EQ(scale.item<float>(), 32768);
  const GradientReport report = control.read();
  EXPECT_EQ(report.skipped_steps, 1);
  EXPECT_EQ(report.consecutive_skips, 1);
  EXPECT_EQ(report.layers[0].nonfinite, 8 * 27);
}

TEST(GradientControl, KeepsAScaleOfOneWithoutLossScaling) {
  OptimizerCase test;
  GradientControl control({}, test.ours, 2);
  EXPECT_EQ(control.loss_scale().item<float>(), 1);
}

TEST(GradientControl, ScalesTheGradientsOfALossThroughAutograd) {
  OptimizerCase test;
  GradientControl control({.loss_scaling = true, .initial_loss_scale = 256}, test.ours, 2);
  (test.ours[1].tensor.sum() * control.loss_scale()).backward();
  EXPECT_TRUE(at::equal(test.ours[1].tensor.grad(), at::full({8}, 256.0f)));
  control.measure();
  EXPECT_EQ(control.read().layers[0].sum, 8);
}

TEST(GradientControl, RestoresScaleAndCounters) {
  OptimizerCase test;
  GradientControl control({.loss_scaling = true, .growth_interval = 3}, test.ours, 2);
  for (int i = 0; i < 4; ++i) {
    test.draw_gradients();
    control.measure();
  }
  GradientControl other({.loss_scaling = true, .growth_interval = 3}, test.ours, 2);
  other.restore(saved_state(control));
  for (GradientControl* one : {&control, &other}) {
    one->measure();
    EXPECT_EQ(one->read().loss_scale, 131072);
    EXPECT_EQ(one->read().applied_steps, 5);
    one->measure();
    EXPECT_EQ(one->read().loss_scale, 262144);
  }
}

TEST(GradientControl, RefusesImpossibleOptions) {
  OptimizerCase test;
  EXPECT_THROW(GradientControl({.clip_norm = -1}, test.ours, 2), UsageError);
  EXPECT_THROW(GradientControl({.initial_loss_scale = 0}, test.ours, 2), UsageError);
  EXPECT_THROW(GradientControl({.growth_interval = 0}, test.ours, 2), UsageError);
  EXPECT_THROW(GradientControl({}, test.ours, 1), UsageError) << "a parameter is of layer 1";
}

}  // namespace
}  // namespace triaccel
