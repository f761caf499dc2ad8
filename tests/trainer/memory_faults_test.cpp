#include <gtest/gtest.h>

#include "tests/trainer/watched_run.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {
namespace {

/// A run whose allocations fail at random during steps.
struct FailingRun : WatchedRun {
  explicit FailingRun(const RunConfig& wanted) : WatchedRun(wanted) {}

  RunSummary run_failing(std::uint64_t number) {
    seed = number;
    draws = 0;
    arm();
    const RunSummary summary = run();
    fail_cpu_allocation(-1);
    return summary;
  }

  /// Some allocation of the next step: a step has about a hundred.
  void arm() {
    const RandomWords random = random_words(seed, draws++, 3);
    fail_cpu_allocation(random.words[0] % 3 == 0 ? -1 : random.words[1] % 110);
  }
  void after_step() override {
    WatchedRun::after_step();
    arm();
  }
  // No step is under way from the end of an interval, here an epoch, to the evaluation after it.
  void interval(const StepReport& report, const StepPlan& plan) override {
    fail_cpu_allocation(-1);
    WatchedRun::interval(report, plan);
  }
  void evaluation(const EvaluationReport& report) override {
    WatchedRun::evaluation(report);
    arm();
  }

  std::uint64_t seed = 0, draws = 0;
};

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

// The samples of a step that ran out of memory are trained in smaller passes, to the same
// weights, each once an epoch.
TEST(OutOfMemoryInAStep, ChangesNeitherWeightsNorSamples) {
  RunConfig config = plain_digits_run();
  config.train.control_interval = 1000;
  config.train.epochs = 3;
  config.train.lr = 0.01;
  config.train.batch = 8;
  config.model.width = 2;
  config.data.image_size = 8;
  config.data.train_samples = 24;
  FailingRun failing(config);
  failing.run();
  const std::vector<at::Tensor> wanted = copies_of(failing.tensors());
  std::int64_t failures = 0;
  for (std::uint64_t number = 0; failures < 1000 && number < 1000; ++number) {
    failing.start_over();
    const RunSummary summary = failing.run_failing(number);
    failures += summary.memory_retries;
    ASSERT_EQ(summary.samples, 3 * 24);
    ASSERT_TRUE(failing.each_sample_once(3)) << "run " << number;
    const std::vector<at::Tensor> weights = failing.tensors();
    for (std::size_t i = 0; i < weights.size(); ++i)
      ASSERT_LE((weights[i] - wanted[i]).norm().item<double>(),
                1e-5 * wanted[i].norm().item<double>())
          << "tensor " << i << " of run " << number;
  }
  EXPECT_GE(failures, 1000);
}

TEST(OutOfMemoryInAStep, LetsTheBatchGrowAgain) {
  RunConfig config = digits_run();
  config.control.curvature = "off";
  config.control.batch_growth = "free";
  config.train.control_interval = 1;
  WatchedRun once(config);
  struct FailsOnce : WatchedRun {
    using WatchedRun::WatchedRun;
    void after_step() override {
      WatchedRun::after_step();
      if (++steps == 2) fail_cpu_allocation(40);
    }
    int steps = 0;
  } run(config);
  const RunSummary summary = run.run();
  fail_cpu_allocation(-1);
  EXPECT_EQ(summary.memory_retries, 1);
  EXPECT_TRUE(run.each_sample_once(2));
  EXPECT_GT(summary.batch_largest, 16);
}

TEST(OutOfMemoryInAStep, IsTriedAgainWhenNothingSmallerIsLeft) {
  RunConfig config = plain_digits_run();
  config.train.batch = 1;
  config.data.train_samples = 8;
  FailingRun failing(config);
  EXPECT_GT(failing.run_failing(5).memory_retries, 0);
  EXPECT_TRUE(failing.each_sample_once(2));
}

TEST(EpochOrder, IsUploadedAgainWhenTheRunGoesBackAfterAnUploadThatFailed) {
  const Sampler first({0, 1, 2, 3, 4, 5, 6, 7}, 1);
  Sampler second = first;
  second.take(8);
  install_cpu_memory();
  EpochOrder order{c10::Device(c10::kCPU)};
  const at::Tensor before = order.upcoming(first, 3).clone();
  fail_cpu_allocation(0);
  EXPECT_THROW(order.upcoming(second, 3), c10::OutOfMemoryError);
  EXPECT_TRUE(order.upcoming(first, 3).equal(before));
}

TEST(OutOfMemoryInAProbe, LeavesTheProbeOut) {
  RunConfig config = digits_run();
  config.control.curvature_every = 3;
  struct FailsInProbes : WatchedRun {
    using WatchedRun::WatchedRun;
    void after_step() override {
      WatchedRun::after_step();
      if (++steps % 3 == 0) fail_cpu_allocation(steps, /*persistently=*/true);
    }
    void interval(const StepReport& report, const StepPlan& plan) override {
      fail_cpu_allocation(-1);
      WatchedRun::interval(report, plan);
    }
    int steps = 0;
  } run(config);
  const RunSummary summary = run.run();
  EXPECT_EQ(summary.status, "finished");
  EXPECT_EQ(summary.curvature_probes, 0);
  EXPECT_TRUE(run.noticed("curvature probe skipped"));
  EXPECT_TRUE(run.each_sample_once(2));
}

}  // namespace
}  // namespace triaccel
