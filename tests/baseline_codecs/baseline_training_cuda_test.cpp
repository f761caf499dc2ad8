#include <gtest/gtest.h>

#include "bench/papers/baseline_codecs/baseline_codec.h"
#include "tests/trainer/small_run.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/trainer/measure/gradient_quality.h"

namespace triaccel {
namespace {

TEST(BaselineTrainingOnCuda, GradientsOfCompressedActivationsAreFarBetterThanOfActnnsCodec) {
  if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  if (!find_registered_codec("actnn")) register_baseline_codecs();
  RunConfig config = small_run("cuda");
  config.model.name = "resnet18";
  config.model.stem = "cifar";
  config.model.width = 16;
  config.train.deterministic = true;
  GradientJudge judge(config);
  const GradientQuality actnn = judge.judge({.activations = {.keep = "actnn"}}, 4);
  const GradientQuality ours = judge.judge({.activations = {.keep = "compressed", .ratio = 12}}, 4);
  EXPECT_LT(ours.error, actnn.error / 4);
}

}  // namespace
}  // namespace triaccel
