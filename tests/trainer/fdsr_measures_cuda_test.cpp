#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/small_run.h"
#include "triaccel/device/cuda_memory.h"
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
  const GradientQuality ours = judge.judge({.activations = {.keep = "coded", .ratio = 12}}, 4);
  EXPECT_GE(ours.held_ratio, 12);
  EXPECT_LT(std::abs(ours.bias), 0.002);
}

TEST_F(FdsrMeasuresOnCuda, CompressedActivationsLetALargerBatchIntoTheSameMemory) {
  const std::int64_t budget =
      time_steps(resolved(config_), {.warmup_steps = 2, .samples = 1}).peak_reserved_bytes;
  const std::int64_t raw = largest_batch(config_, budget);
  EXPECT_GE(raw, config_.train.batch / 2);
  config_.activations.keep = "coded";
  EXPECT_GT(largest_batch(config_, budget), raw);
}

}  // namespace
}  // namespace triaccel
