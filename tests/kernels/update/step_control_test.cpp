#include "triaccel/kernels/update/step_control.h"

#include <gtest/gtest.h>

#include <vector>

namespace triaccel::kernels {
namespace {

StepControl decide(StepControl control, std::vector<LayerMoments> layers,
                   StepControlOptions options = {}) {
  cpu::decide_step(&control, layers.data(), static_cast<std::int64_t>(layers.size()), options);
  return control;
}

const LayerMoments kClean = {.count = 1, .sum_of_squares = 9};
const LayerMoments kOverflow = {.count = 1, .nonfinite = 1};

TEST(DecideStep, AppliesACleanStepUnchanged) {
  const StepControl control = decide({}, {kClean, {.count = 1, .sum_of_squares = 16}});
  EXPECT_EQ(control.gradient_norm, 5);
  EXPECT_EQ(control.gradient_multiplier, 1.0f);
  EXPECT_EQ(control.skip, 0);
  EXPECT_EQ(control.applied_steps, 1);
}

TEST(DecideStep, ClipsTheNormToTheLimit) {
  const StepControl control = decide({}, {kClean}, {.max_norm = 1.5f});
  EXPECT_FLOAT_EQ(control.gradient_multiplier, static_cast<float>(1.5 / (3 + 1e-6)));
  EXPECT_EQ(control.gradient_norm, 3) << "the norm is that before clipping";
}

TEST(DecideStep, NeverEnlargesASmallGradient) {
  EXPECT_EQ(decide({}, {kClean}, {.max_norm = 100}).gradient_multiplier, 1.0f);
}

TEST(DecideStep, DividesTheLossScaleOut) {
  EXPECT_EQ(decide({.loss_scale = 1024}, {kClean}).gradient_multiplier, 1.0f / 1024);
}

TEST(DecideStep, SkipsWhenAnyLayerIsNotFinite) {
  const StepControl once = decide({.applied_steps = 7}, {kClean, kOverflow});
  EXPECT_EQ(once.skip, 1);
  EXPECT_EQ(once.gradient_multiplier, 0.0f);
  EXPECT_EQ(once.applied_steps, 7);
  const StepControl twice = decide(once, {kOverflow});
  EXPECT_EQ(twice.skipped_steps, 2);
  EXPECT_EQ(twice.consecutive_skips, 2);
  const StepControl clean = decide(twice, {kClean});
  EXPECT_EQ(clean.skip, 0);
  EXPECT_EQ(clean.consecutive_skips, 0);
  EXPECT_EQ(clean.skipped_steps, 2);
}

TEST(DecideStep, KeepsTheLastLayerOfTheFirstSkippedStepAlone) {
  StepControl control = decide({.applied_steps = 7, .skipped_steps = 2}, {kClean});
  EXPECT_EQ(control.first_skipped_step, -1);
  EXPECT_EQ(control.first_skipped_layer, -1);
  control = decide(control, {kOverflow, kOverflow, kClean});
  EXPECT_EQ(control.first_skipped_step, 11);
  EXPECT_EQ(control.first_skipped_layer, 1);
  control = decide(control, {kClean, kClean, kOverflow});
  EXPECT_EQ(control.first_skipped_step, 11);
  EXPECT_EQ(control.first_skipped_layer, 1);
}

TEST(LossScale, HalvesOnOverflowAndStartsCountingAgain) {
  const StepControl control =
      decide({.loss_scale = 65536, .clean_steps = 1500}, {kOverflow}, {.dynamic_loss_scale = true});
  EXPECT_EQ(control.loss_scale, 32768);
  EXPECT_EQ(control.clean_steps, 0);
}

TEST(LossScale, DoublesAfterTheGrowthInterval) {
  StepControl control = {.loss_scale = 1024};
  const StepControlOptions options = {.dynamic_loss_scale = true, .growth_interval = 3};
  for (const float scale : {1024.0f, 1024.0f, 2048.0f, 2048.0f, 2048.0f, 4096.0f}) {
    control = decide(control, {kClean}, options);
    EXPECT_EQ(control.loss_scale, scale);
  }
}

TEST(LossScale, MultipliesByTheScaleTheGradientsWereComputedWith) {
  const StepControl control =
      decide({.loss_scale = 1024}, {kClean}, {.dynamic_loss_scale = true, .growth_interval = 1});
  EXPECT_EQ(control.loss_scale, 2048);
  EXPECT_EQ(control.gradient_multiplier, 1.0f / 1024);
}

TEST(LossScale, StaysWithinItsLimits) {
  const StepControlOptions options = {.dynamic_loss_scale = true, .growth_interval = 1};
  EXPECT_EQ(decide({.loss_scale = 1}, {kOverflow}, options).loss_scale, 1);
  EXPECT_EQ(decide({.loss_scale = 16777216}, {kClean}, options).loss_scale, 16777216);
}

TEST(LossScale, StaysFixedWhenNotDynamic) {
  EXPECT_EQ(decide({.loss_scale = 8}, {kOverflow}).loss_scale, 8);
}

}  // namespace
}  // namespace triaccel::kernels
