#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "tests/trainer/small_run.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/trainer/loop/training.h"
#include "triaccel/trainer/measure/gradient_quality.h"
#include "triaccel/trainer/measure/largest_batch.h"
#include "triaccel/trainer/measure/step_timing.h"

namespace triaccel {
namespace {

class FdsrMeasuresOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
    config_ = small_run("cuda");
    config_.model.name = "resnet18";
    config_.model.stem = "cifar";
    config_.model.width = 16;
  }
  RunConfig config_;
};

TEST_F(FdsrMeasuresOnCuda, GradientsOfCompressedActivationsAreNearAndUnbiased) {
  config_.train.deterministic = true;  // what is lossless must be equal to the bit
  GradientJudge judge(config_);
  EXPECT_EQ(judge.judge({.activations = {.keep = "lossless"}}, 1).error, 0);
  const GradientQuality ours = judge.judge({.activations = {.keep = "compressed", .ratio = 12}}, 4);
  EXPECT_GE(ours.held_ratio, 12);
  EXPECT_LT(std::abs(ours.bias), 0.002);
}

/// The weights' first step, each as one row of FP64.
std::vector<at::Tensor> first_step(const char* network, const char* activations) {
  RunConfig config = small_run("cuda");
  config.train.method = "triaccel";
  config.train.batch = 96;
  config.train.steps = 1;
  config.train.deterministic = true;
  config.control.precision = LayerPrecision::Fp32;  // at initial weights BF16 errs by half a step
  config.control.curvature = CurvatureSource::Off;
  config.control.batch = BatchMode::Off;
  config.activations.keep = activations;
  config.activations.ratio = 4;
  torch::manual_seed(1);
  const Network trained = make_model({.name = network});
  std::vector<at::Tensor> moved;
  for (const at::Tensor& weight : trained.module->parameters())
    moved.push_back(weight.detach().to(at::kDouble).flatten().clone());
  train(trained, config);
  const auto after = trained.module->parameters();
  for (std::size_t i = 0; i < moved.size(); ++i)
    moved[i] = after[i].detach().cpu().to(at::kDouble).flatten() - moved[i];
  return moved;
}

// With the fused layers of each network and the bit widths that a run would choose.
TEST_F(FdsrMeasuresOnCuda, StepsFromCompressedActivationsFollowRawOnes) {
  for (const char* network : {"resnet18", "efficientnet-b0", "densenet121"}) {
    const auto raw = first_step(network, "raw"), compressed = first_step(network, "compressed");
    double apart = 0, moved = 0;  // squared
    for (std::size_t i = 0; i < raw.size(); ++i) {
      apart += (compressed[i] - raw[i]).square().sum().item<double>();
      moved += raw[i].square().sum().item<double>();
    }
    std::printf("%s: error of the first step %.2g\n", network, apart / moved);
    EXPECT_LT(apart, 0.002 * moved) << network;
  }
}

TEST_F(FdsrMeasuresOnCuda, CompressedActivationsLetALargerBatchIntoTheSameMemory) {
  const std::int64_t budget =
      time_steps(resolved(config_), {.warmup_steps = 2, .samples = 1}).peak_reserved_bytes;
  const std::int64_t raw = largest_batch(config_, budget);
  EXPECT_GE(raw, config_.train.batch / 2);
  config_.activations.keep = "compressed";
  EXPECT_GT(largest_batch(config_, budget), raw);
}

}  // namespace
}  // namespace triaccel
