#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bench/papers/baseline_codecs/baseline_codec.h"
#include "tests/saved/saved_pass.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/policies/memory/held_bytes.h"
#include "triaccel/trainer/measure/gradient_quality.h"

namespace triaccel {
namespace {

SavedPlan plan_by(const char* codec) {
  static const bool registered = (register_baseline_codecs(), true);
  EXPECT_TRUE(registered);
  return {.codec = SavedCodec::Registered, .registered = find_registered_codec(codec).value()};
}

struct BaselineCase {
  const char* codec;
  double least_cosine;
};

TEST(BaselineTraining, KeepsValuesInTheBytesThatItsPlanForetells) {
  // Enough samples for its norms: over two values a norm's gradient is all but undefined.
  const SlimRun run({.name = "resnet18", .stem = "cifar", .width = 8, .image_size = 16}, 4);
  const Forward forward = [&] { return run.forward(); };
  const std::int64_t samples = run.input.size(0);
  const SavedCensus census = census_of(forward, run.constants, samples);
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  const at::Tensor exact = run.forward();
  const std::vector<at::Tensor> wanted = run.gradients(exact);
  for (const BaselineCase& each : {BaselineCase{"bf16", 0.9999}, BaselineCase{"gact", 0.98},
                                   BaselineCase{"actnn", 0.6}, BaselineCase{"division", 0.6}}) {
    SavedStore store({.seed = 5}, run.constants, at::kCPU);
    const std::vector<SavedPlan> plans = plans_by_tensor(tensors, plan_by(each.codec));
    store.follow(census, plans_by_entry(census, tensors, plans));
    const at::Tensor logits = kept(store, forward);
    EXPECT_TRUE(torch::equal(logits, exact)) << each.codec;
    EXPECT_EQ(store.counts().all_held_bytes(), held_bytes(tensors, plans, samples)) << each.codec;
    EXPECT_GT(cosine(run.gradients(logits), wanted), each.least_cosine) << each.codec;
  }
}

TEST(BaselineTraining, OnlyActnnKeepsATensorAsOftenAsItIsSaved) {
  for (const char* codec : {"bf16", "gact", "actnn", "division"})
    EXPECT_EQ(registered_codec(plan_by(codec).registered).shares(), std::string(codec) != "actnn");
}

// At 12 times less, less than a quarter of the error of ActNN's codec.
TEST(BaselineTraining, GradientsOfCompressedActivationsAreFarBetterThanOfActnnsCodec) {
  plan_by("actnn");
  RunConfig config;
  config.model.name = "resnet18";
  config.model.stem = "cifar";
  config.model.width = 8;
  config.data.train_samples = 64;
  config.train.batch = 16;
  config.device.device = "cpu";
  config.device.threads = 1;
  GradientJudge judge(config);
  const GradientQuality actnn = judge.judge({.activations = {.keep = "actnn"}}, 4);
  const GradientQuality ours = judge.judge({.activations = {.keep = "compressed", .ratio = 12}}, 4);
  EXPECT_GE(ours.held_ratio, 12);
  EXPECT_LT(ours.error, actnn.error / 4);
}

}  // namespace
}  // namespace triaccel
