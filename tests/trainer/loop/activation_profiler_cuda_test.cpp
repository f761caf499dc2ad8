#include "triaccel/trainer/loop/activation_profiler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "tests/trainer/small_run.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/trainer/loop/control_setup.h"

namespace triaccel {
namespace {

class ProfilesOnCuda : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  }
};

at::Tensor numbers(std::int64_t first, std::int64_t count, c10::Device device) {
  return at::arange(first, first + count, at::TensorOptions(at::kLong).device(device));
}

// Between steps that are captured and replayed, in their memory.
TEST_P(ProfilesOnCuda, KeepTheBoundAndLeaveTheRunAsItWas) {
  RunConfig config = small_run("cuda");
  config.train.method = GetParam();
  config.activations.keep = "bounded";
  config.activations.error_bound = 0.02;
  config = resolved(config);
  RunParts parts(config, make_model({.name = "resnet18", .stem = "cifar", .width = 16}));
  parts.network.module->train();
  const c10::Device device = parts.on.device;
  ActivationPolicy compression(activation_options(config));
  StepPlan plan = parts.plan;
  PolicyEvents events;
  const auto profile = [&] {
    plan_activations(compression, parts, numbers(0, kProfileSamples, device), plan, events);
  };
  const auto step = [&](std::int64_t first) {
    parts.runner->run(plan, *parts.data.train, numbers(first, 64, device), {}, 0.01);
  };
  profile();
  for (std::int64_t i = 0; i < 4; ++i) step(64 * i);
  std::vector<at::Tensor> before;
  for (const at::Tensor& tensor : parts.network.module->parameters())
    before.push_back(tensor.detach().clone());
  for (const at::Tensor& tensor : parts.network.module->buffers()) before.push_back(tensor.clone());
  profile();
  std::size_t i = 0;
  for (const at::Tensor& tensor : parts.network.module->parameters()) {
    EXPECT_TRUE(tensor.equal(before[i++]));
    EXPECT_FALSE(tensor.grad().defined());
  }
  for (const at::Tensor& tensor : parts.network.module->buffers())
    EXPECT_TRUE(tensor.equal(before[i++]));
  const CompressionNoise noise =
      parts.runner->compression_noise(plan, *parts.data.train, numbers(256, 64, device));
  EXPECT_LE(noise.error, 0.02);
  EXPECT_GT(noise.compression_variance, 0);
  EXPECT_GT(noise.batch_variance, noise.compression_variance);
  for (std::int64_t s = 4; s < 7; ++s) step(64 * s);
  EXPECT_EQ(parts.runner->collect().skipped_steps, 0);
}

TEST_P(ProfilesOnCuda, KnowTheLayersThatReadActivations) {
  if (GetParam() == "amp") GTEST_SKIP() << "its operators read copies of weights";
  RunConfig config = small_run("cuda");
  config.train.method = GetParam();
  config.activations.keep = "compressed";
  config = resolved(config);
  RunParts parts(config, make_model({.name = "resnet18", .stem = "cifar", .width = 16}));
  parts.network.module->train();
  ActivationPolicy compression(activation_options(config));
  StepPlan plan = parts.plan;
  PolicyEvents events;
  plan_activations(compression, parts, numbers(0, kProfileSamples, parts.on.device), plan, events);
  std::set<std::int64_t> products, norms;
  for (const SavedEntry& entry : parts.runner->census().entries) {
    const bool product = entry.kind == SavedClass::Factor || entry.kind == SavedClass::Positive;
    if (!product && entry.kind != SavedClass::NormInput) continue;
    EXPECT_GE(entry.layer, 0) << entry.consumer << " reads what " << entry.producer << " made";
    (product ? products : norms).insert(entry.layer);
  }
  EXPECT_GE(products.size() + 1, plan.layers.size()) << "the last reads a vector";
  // The last has no norm; those of three shortcuts are fused with the norms they are added to.
  EXPECT_GE(norms.size() + 4, plan.layers.size());
}

INSTANTIATE_TEST_SUITE_P(Methods, ProfilesOnCuda, testing::Values("fp32", "amp", "triaccel"));

}  // namespace
}  // namespace triaccel
