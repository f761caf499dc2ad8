#include "triaccel/kernels/precision/layer_scale.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

namespace triaccel::kernels {
namespace {

LayerScale updated(LayerScale layer, LayerMoments moments) {
  moments.fp16_scale *= layer.scale;  // as gradient_moments leaves it
  cpu::update_layer_scales(&layer, &moments, 1);
  return layer;
}

TEST(LayerScale, PutsTheMaximumThreeBitsBelowTheLargestFp16) {
  for (const float maximum : {1e-6f, 0.3f, 1.0f, 8188.0f, 8188.5f, 8192.0f, 1e9f}) {
    const float scale = updated({}, {.absolute_maximum = maximum}).scale;
    EXPECT_LE(maximum * scale, kScaledMaximum) << maximum;
    EXPECT_GT(maximum * scale * 2, kScaledMaximum) << maximum;
    int exponent;
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5f) << "a power of two";
  }
}

TEST(LayerScale, FollowsTheLargerOfOutputAndWeightGradient) {
  EXPECT_EQ(updated({.output_maximum = 4}, {.absolute_maximum = 1}).recent_maximum, 4.0f);
  EXPECT_EQ(updated({.output_maximum = 4}, {.absolute_maximum = 6}).recent_maximum, 6.0f);
  EXPECT_EQ(updated({.output_maximum = 4}, {}).output_maximum, 0.0f) << "the next step's is new";
}

TEST(LayerScale, LetsOldMaximaFade) {
  LayerScale layer = updated({}, {.absolute_maximum = 64});
  const float first = layer.scale;
  for (int i = 0; i < 69; ++i) layer = updated(layer, {.absolute_maximum = 1});
  EXPECT_EQ(layer.scale, 2 * first);
  EXPECT_NEAR(layer.recent_maximum, 32, 0.1);
}

TEST(LayerScale, HalvesAfterAnOverflowAndForgetsNothing) {
  const LayerScale before = {.scale = 1024, .recent_maximum = 1};
  const LayerScale after = updated(before, {.nonfinite = 1, .absolute_maximum = 0.5f});
  EXPECT_EQ(after.scale, 512.0f);
  EXPECT_EQ(after.recent_maximum, 1.0f);
}

TEST(LayerScale, FallsFurtherWhereTheOverflowShowedALargerMaximum) {
  const LayerScale after = updated({.scale = 1024, .output_maximum = 1000}, {.nonfinite = 1});
  EXPECT_EQ(after.scale, 8.0f);
}

TEST(LayerScale, StaysWhereNoGradientWasEverMet) {
  EXPECT_EQ(updated({.scale = 32}, {}).scale, 32.0f);
}

TEST(LayerScale, StaysWithinItsBounds) {
  EXPECT_EQ(updated({}, {.absolute_maximum = FLT_MIN / 4}).scale, kLargestLayerScale);
  EXPECT_EQ(updated({}, {.absolute_maximum = FLT_MAX}).scale, kSmallestLayerScale);
  EXPECT_EQ(updated({.output_maximum = INFINITY}, {}).recent_maximum, FLT_MAX);
  EXPECT_EQ(updated({.scale = kSmallestLayerScale}, {.nonfinite = 1}).scale, kSmallestLayerScale);
}

TEST(LayerScale, CountsALossScaleAsPartOfTheGradient) {
  const LayerScale alone = updated({}, {.absolute_maximum = 1});
  const LayerScale under = updated({}, {.absolute_maximum = 1, .fp16_scale = 256});
  EXPECT_EQ(under.scale, alone.scale / 256);
}

}  // namespace
}  // namespace triaccel::kernels
