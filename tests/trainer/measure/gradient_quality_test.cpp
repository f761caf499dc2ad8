#include "triaccel/trainer/measure/gradient_quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// A slim ResNet at its first weights: enough norms, ReLUs and sums for every codec.
RunConfig judged_run(std::int64_t image_size = 32) {
  RunConfig config;
  config.model.name = "resnet18";
  config.model.stem = "cifar";
  config.model.width = 8;
  config.data.image_size = image_size;
  config.data.train_samples = 64;
  config.train.batch = 16;
  config.device.device = "cpu";
  config.device.threads = 1;
  return config;
}

SavedSettings kept(const std::string& keep, double ratio = 10.2) {
  return {.activations = {.keep = keep, .ratio = ratio}};
}

TEST(GradientQuality, IsExactWhereNothingIsLost) {
  GradientJudge judge(judged_run(16));
  for (const char* keep : {"raw", "lossless"}) {
    const GradientQuality quality = judge.judge(kept(keep), 2);
    EXPECT_EQ(quality.error, 0) << keep;
    EXPECT_EQ(quality.bias, 0) << keep;
    EXPECT_NEAR(quality.cosine, 1, 1e-12) << keep;
  }
  EXPECT_TRUE(std::isnan(judge.judge(kept("compressed"), 1).bias))
      << "one draw has no other to compare with";
}

// The cosine at 10 times less is 0.998 once a network is trained
// (bench/records/*_fdsr_gradients); the gradient of initial weights is small relative to its noise.
TEST(GradientQuality, OfCompressedActivationsIsCloseToExact) {
  constexpr std::int64_t kDraws = 4;
  GradientJudge judge(judged_run());
  const GradientQuality twelve = judge.judge(kept("compressed", 12), kDraws);
  EXPECT_GE(twelve.held_ratio, 12);
  EXPECT_LT(std::abs(twelve.bias), 0.002);
  const GradientQuality ten = judge.judge(kept("compressed", 10), kDraws);
  EXPECT_GE(ten.held_ratio, 10);
  EXPECT_GE(ten.cosine, 0.995);
}

// Where the noise of layers tells nothing that pays, bits stay: on other samples than were measured
// it is never much worse.
TEST(GradientQuality, IsBetterWhereBitsFollowTheNoiseOfLayers) {
  for (const auto& [model, most] : {std::pair("resnet18", 0.8), {"efficientnet-b0", 1.05}}) {
    RunConfig config = judged_run();
    config.model.name = model;
    config.train.batch = 32;
    GradientJudge judge(config);
    SavedSettings settings = kept("compressed");
    const GradientQuality before = judge.judge(settings, 2);
    settings.by_layer = true;
    const GradientQuality after = judge.judge(settings, 2);
    EXPECT_LT(after.error, most * before.error) << model;
    EXPECT_GE(after.held_ratio, 10.2) << "at no more bytes";
  }
}

TEST(GradientQuality, TellsBiasFromNoise) {
  GradientJudge judge(judged_run(16));
  SavedSettings dither = kept("compressed", 7);
  const GradientQuality noise = judge.judge(dither, 4);
  EXPECT_LT(std::abs(noise.bias), noise.error / 4);
  SavedSettings rounded = dither;
  rounded.activations.rounding = "nearest";
  const GradientQuality bias = judge.judge(rounded, 2);
  EXPECT_NEAR(bias.bias, bias.error, 1e-9) << "rounded the same way each time";
}

TEST(GradientQuality, IsThatOfFp32WhateverTheMethod) {
  RunConfig config = judged_run(16);
  config.train.method = "fp32";
  const GradientQuality exact = GradientJudge(config).judge(kept("compressed"), 1);
  config.train.method = "triaccel";
  config.activations.recompute_norms = true;
  EXPECT_EQ(GradientJudge(config).judge(kept("compressed"), 1).error, exact.error);
}

TEST(GradientQuality, NeedsBackpropagationAndSamplesEnough) {
  RunConfig config = judged_run();
  config.train.method = "zo";
  EXPECT_THROW(GradientJudge{config}, UsageError);
  config = judged_run();
  config.train.batch = 65;
  EXPECT_THROW(GradientJudge{config}, UsageError);
}

}  // namespace
}  // namespace triaccel
