#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/trainer/small_run.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

class TrainingOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  }
};

struct Losses final : Sink {
  std::vector<double> values;
  std::vector<MemoryReport> memory;
  void interval(const StepReport& report, const StepPlan&) override {
    values.push_back(report.loss);
    memory.push_back(report.memory);
  }
};

TEST_F(TrainingOnCuda, LearnsAsTheCpuDoes) {
  Losses on_cpu, on_cuda;
  RunConfig config = small_run("cpu");
  torch::manual_seed(5);
  const Network network = make_model({.name = "lenet5"});
  train(network, config, {.sinks = {&on_cpu}});
  torch::manual_seed(5);
  config.device.device = "cuda";
  train(make_model({.name = "lenet5"}), config, {.sinks = {&on_cuda}});
  ASSERT_EQ(on_cpu.values.size(), on_cuda.values.size());
  EXPECT_NEAR(on_cpu.values[0], on_cuda.values[0], 1e-4);
  EXPECT_NEAR(on_cpu.values.back(), on_cuda.values.back(), 0.05 * on_cpu.values.back() + 1e-3);
}

TEST_F(TrainingOnCuda, KeepsInsideTheBudgetBySmallerPasses) {
  RunConfig config = small_run("cuda");
  config.train.batch = 1024;
  config.data.train_samples = 0;
  config.device.budget = "900MiB";
  Losses losses;
  release_cuda_cache();
  const RunSummary summary =
      train(make_model({.name = "resnet18", .stem = "cifar"}), config, {.sinks = {&losses}});
  limit_cuda_memory(0);
  EXPECT_EQ(summary.memory_retries, 0);
  EXPECT_LE(summary.peak_reserved_bytes, summary.budget_bytes);
  EXPECT_GT(summary.predicted_bytes, summary.budget_bytes / 2);
  EXPECT_EQ(summary.samples, 2 * 4096);
  const auto& by_purpose = losses.memory.back().peak_by_purpose;
  EXPECT_GE(by_purpose[static_cast<std::size_t>(MemoryPurpose::Weights)], 44'000'000);
  // In 8 bits, or where plans keep it in host memory.
  EXPECT_GE(
      by_purpose[static_cast<std::size_t>(MemoryPurpose::Optimizer)] + summary.host_state_bytes,
      11'000'000);
  EXPECT_GE(by_purpose[static_cast<std::size_t>(MemoryPurpose::Gradients)], 44'000'000);
  EXPECT_GT(by_purpose[static_cast<std::size_t>(MemoryPurpose::Activations)], 10'000'000);
}

struct ResumedOnCuda {
  std::string method;
  std::string optimizer_state;
  std::string activations = "raw";
};

class ResumesOnCuda : public TrainingOnCuda, public testing::WithParamInterface<ResumedOnCuda> {};

TEST_P(ResumesOnCuda, WithTheSameBytes) {
  RunConfig config = small_run("cuda");
  config.model.name = "resnet18";
  config.model.width = 16;
  config.train.method = GetParam().method;
  config.train.optimizer_state = GetParam().optimizer_state;
  config.activations.keep = GetParam().activations;
  config.train.deterministic = true;
  config.train.ema = 0.9;
  const ScratchFolder scratch;
  start_run(config, scratch.path / "whole");
  int steps = 0;
  start_run(config, scratch.path / "cut", {.stop_requested = [&] { return ++steps == 7; }});
  resume_run(scratch.path / "cut");
  EXPECT_EQ(final_weights(scratch.path / "cut"), final_weights(scratch.path / "whole"));
}

INSTANTIATE_TEST_SUITE_P(Methods, ResumesOnCuda,
                         testing::Values(ResumedOnCuda{"fp32", "fp32"},
                                         ResumedOnCuda{"amp", "fp32"}, ResumedOnCuda{"fp32", "fp8"},
                                         ResumedOnCuda{"triaccel", "host"},
                                         ResumedOnCuda{"triaccel", "fp32", "compressed"}),
                         [](const auto& one) {
                           return one.param.method + "_state_" + one.param.optimizer_state + "_" +
                                  one.param.activations;
                         });

TEST_F(TrainingOnCuda, ScalesTheLossUnderAmp) {
  RunConfig config = small_run("cuda");
  config.train.method = "amp";
  struct Scale final : Sink {
    double last = 0;
    void interval(const StepReport& report, const StepPlan& plan) override {
      last = report.loss_scale;
      EXPECT_EQ(plan.layers[0].compute, Precision::Fp16);
    }
  } scale;
  const RunSummary summary = train(make_model({.name = "lenet5"}), config, {.sinks = {&scale}});
  EXPECT_GT(scale.last, 1);
  EXPECT_EQ(summary.steps, 16);
  EXPECT_TRUE(std::isfinite(summary.loss));
}

}  // namespace
}  // namespace triaccel
