#include "triaccel/optim/gradient_control.h"

#include <gtest/gtest.h>

#include "tests/optim/optimizer_case.h"
#include "triaccel/base/error.h"
#include "triaccel/kernels/precision/layer_scale.h"

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
  EXPECT_EQ(report.layers[2], LayerSignals{.fp16_scale = 1024}) << "no parameter is of this layer";
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

TEST(GradientControl, DecidesTheSameFromGradientsGatheredInPieces) {
  OptimizerCase test;
  const GradientControlOptions options = {.clip_norm = 1, .loss_scaling = true};
  GradientControl whole(options, test.ours, 3), pieces(options, test.ours, 3);
  for (const bool overflow : {false, true, false}) {
    test.draw_gradients(65536);
    if (overflow) test.ours[3].tensor.mutable_grad().fill_(INFINITY);
    whole.measure();
    whole.finish_step();
    pieces.start_gathering();
    test.release_gradients([&] { pieces.gather(); });
    pieces.decide();
    pieces.finish_step();
    const GradientReport a = whole.read(), b = pieces.read();
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(b.layers[i].count, a.layers[i].count);
      EXPECT_EQ(b.layers[i].nonfinite, a.layers[i].nonfinite);
      EXPECT_EQ(b.layers[i].fp16_scale, a.layers[i].fp16_scale);
      EXPECT_NEAR(b.layers[i].sum_of_squares, a.layers[i].sum_of_squares,
                  1e-12 * a.layers[i].sum_of_squares);
    }
    EXPECT_NEAR(b.gradient_norm, a.gradient_norm, 1e-12 * a.gradient_norm);
    EXPECT_EQ(b.loss_scale, a.loss_scale);
    EXPECT_EQ(b.applied_steps, a.applied_steps);
    EXPECT_EQ(b.skipped_steps, a.skipped_steps);
    EXPECT_EQ(b.first_skipped_layer, a.first_skipped_layer);
    EXPECT_TRUE(at::equal(pieces.layer_scales(), whole.layer_scales()));
  }
}

TEST(GradientControl, CountsAStepWithoutGradientsAsClean) {
  OptimizerCase test;
  GradientControl control({}, test.ours, 2);
  test.draw_gradients();
  test.ours[0].tensor.mutable_grad().fill_(INFINITY);
  control.measure();
  control.start_gathering();
  control.decide();
  EXPECT_EQ(control.read().layers[0].nonfinite, 0);
  EXPECT_EQ(control.read().applied_steps, 1);
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

TEST(GradientControl, RestoresNoScaleWhereALossHasNone) {
  OptimizerCase test;
  GradientControl scaled({.loss_scaling = true, .initial_loss_scale = 1024}, test.ours, 2);
  GradientControl plain({}, test.ours, 2);
  test.draw_gradients();
  scaled.measure();
  plain.measure();
  StateMap with_scale = saved_state(scaled), without = saved_state(plain);
  GradientControl other({}, test.ours, 2);
  GradientControl other_scaled({.loss_scaling = true, .initial_loss_scale = 4096}, test.ours, 2);
  for (int i = 0; i < 2; ++i) {  // of now, and of an earlier version
    other.restore(with_scale);
    EXPECT_EQ(other.read().loss_scale, 1);
    EXPECT_EQ(other.read().applied_steps, 1);
    other_scaled.restore(without);
    EXPECT_EQ(other_scaled.read().loss_scale, 4096);
    other_scaled.restore(with_scale);
    EXPECT_EQ(other_scaled.read().loss_scale, 1024);
    for (StateMap* state : {&with_scale, &without}) state->erase("gradient_control/scaled_loss");
  }
}

/// Stores our gradients as F16 under the layers' present scales, where they are exact.
void store_as_f16(OptimizerCase& test, const GradientControl& control) {
  for (const ParameterRef& parameter : test.ours) {
    const at::Tensor scale = control.layer_scales()[parameter.layer][0];
    parameter.tensor.mutable_grad() = (parameter.tensor.grad() * scale).to(at::kHalf);
  }
}

TEST(GradientControl, MovesTheLayerScalesOnlyWhenTheStepIsFinished) {
  OptimizerCase test;
  GradientControl control({}, test.ours, 2);
  EXPECT_TRUE(at::equal(control.layer_scales().select(1, 0), at::ones({2})));
  test.draw_gradients(1e-6);
  control.measure();
  EXPECT_TRUE(at::equal(control.layer_scales().select(1, 0), at::ones({2})));
  EXPECT_GT(control.read().layers[0].fp16_zeros, 0) << "randn * 1e-6 has some below 2^-25";
  control.finish_step();
  const GradientReport before = control.read();
  EXPECT_EQ(before.layers[0].fp16_scale, 1) << "the scale the counts assume";
  for (const std::int64_t layer : {0, 1}) {
    const float scaled = control.layer_scales()[layer][0].item<float>() *
                         before.layers[static_cast<std::size_t>(layer)].absolute_maximum;
    EXPECT_LE(scaled, kernels::kScaledMaximum);
    EXPECT_GT(2 * scaled, kernels::kScaledMaximum);
  }
}

TEST(GradientControl, SeesTheSameGradientsThroughScaledF16) {
  OptimizerCase test;
  GradientControl control({}, test.ours, 2);
  test.draw_gradients();
  for (const ParameterRef& parameter : test.ours)
    parameter.tensor.mutable_grad() = parameter.tensor.grad().to(at::kHalf).to(at::kFloat);
  control.measure();
  control.finish_step();
  const GradientReport plain = control.read();
  store_as_f16(test, control);
  control.measure();
  const GradientReport scaled = control.read();
  EXPECT_EQ(scaled.gradient_norm, plain.gradient_norm);
  EXPECT_EQ(scaled.layers[1].sum, plain.layers[1].sum);
  EXPECT_EQ(scaled.layers[1].absolute_maximum, plain.layers[1].absolute_maximum);
  EXPECT_EQ(scaled.layers[1].fp16_zeros, 0);
  EXPECT_EQ(scaled.layers[1].fp16_scale, control.layer_scales()[1][0].item<float>());
}

TEST(GradientControl, LowersTheScaleOfTheLayerThatOverflowedAlone) {
  OptimizerCase test;
  GradientControl control({}, test.ours, 2);
  test.draw_gradients();
  control.measure();
  control.finish_step();
  const at::Tensor before = control.layer_scales().select(1, 0).clone();
  test.ours[4].tensor.mutable_grad().fill_(INFINITY);  // of layer 1
  control.measure();
  control.finish_step();
  EXPECT_TRUE(at::equal(control.layer_scales().select(1, 0), before * at::tensor({1.0f, 0.5f})));
}

TEST(GradientControl, NamesWhereTheFirstSkippedStepWentWrongUntilCleared) {
  OptimizerCase test;
  GradientControl control({}, test.ours, 2);
  test.draw_gradients();
  control.measure();
  EXPECT_EQ(control.read().first_skipped_step, -1);
  for (const std::size_t broken : {0u, 4u}) {
    test.draw_gradients();
    test.ours[broken].tensor.mutable_grad().fill_(INFINITY);
    control.measure();
    EXPECT_EQ(control.read().first_skipped_step, 2);
    EXPECT_EQ(control.read().first_skipped_layer, 0);
  }
  control.clear_diagnosis();
  EXPECT_EQ(control.read().first_skipped_step, -1);
  EXPECT_EQ(control.read().first_skipped_layer, -1);
  control.measure();
  EXPECT_EQ(control.read().first_skipped_step, 4);
  EXPECT_EQ(control.read().first_skipped_layer, 1);
}

TEST(GradientControl, RestoresTheLayerScales) {
  OptimizerCase test;
  GradientControl control({}, test.ours, 2);
  test.draw_gradients(1e-3);
  control.measure();
  control.finish_step();
  StateMap saved = saved_state(control);
  GradientControl other({}, test.ours, 2);
  other.restore(saved);
  EXPECT_TRUE(at::equal(other.layer_scales(), control.layer_scales()));
  saved.erase("gradient_control/layer_scales");
  EXPECT_THROW(other.restore(saved), StorageError);
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
