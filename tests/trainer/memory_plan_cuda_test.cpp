#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>
#include <utility>

#include "tests/trainer/small_run.h"
#include "triaccel/base/error.h"
#include "triaccel/core/sampler.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/trainer/loop/torch_engine.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

/// As a program does before anything else: cuBLAS keeps the workspaces that it starts with.
class Arithmetic : public testing::Environment {
  void SetUp() override { set_arithmetic(/*deterministic=*/false); }
};
[[maybe_unused]] const testing::Environment* const arithmetic =
    testing::AddGlobalTestEnvironment(new Arithmetic);

class MemoryPlanOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  }

  static RunConfig residual_run() {
    RunConfig config = small_run("cuda");
    config.model.name = "resnet18";
    config.train.method = "triaccel";
    config.train.batch = 96;
    config.train.steps = 20;
    config.control.curvature = CurvatureSource::Off;
    config.control.precision = LayerPrecision::Bf16;
    config.control.batch = BatchMode::Micro;
    config.data.placement = DataPlacement::Host;
    return config;
  }
};

TEST_F(MemoryPlanOnCuda, CapturedStepsGiveTheirMemoryBackWhenPassesShrink) {
  RunConfig asked = residual_run();
  asked.data.image_size = 64;
  const RunConfig config = resolved(asked);
  RunParts parts(config);
  TorchEngine engine(config, parts);
  const Sampler sampler(parts.data.training_ids, 1);
  engine.start();
  const auto reserved = [&](std::int64_t pass) {
    StepPlan plan = parts.plan;
    plan.micro_batch_size = pass;
    engine.drop_captured();
    engine.release_cache();
    engine.take_peak();
    for (std::int64_t step = 0; step < 3; ++step) engine.run(plan, sampler, 96, {});
    engine.wait();
    return engine.take_peak().reserved;
  };
  const std::int64_t large = reserved(48);
  EXPECT_LT(reserved(8), large);
}

// Captured and eager steps, probes of curvature, all ways to need less memory.
TEST_F(MemoryPlanOnCuda, PredictsReservedMemory) {
  RunConfig config = residual_run();
  config.control.curvature = CurvatureSource::FisherGram;
  config.control.curvature_every = 3;
  config.train.steps = 7;  // few: the smallest passes are slow
  for (const auto& [network, least] : {std::pair("resnet18", 140), std::pair("vit-small", 260)}) {
    config.model.name = network;
    for (const double times : {1.0, 1.3, 1.7, 2.2}) {
      const ScratchFolder runs;
      const auto budget = static_cast<std::int64_t>(times * least);
      config.device.budget = std::to_string(budget) + "MiB";
      const RunSummary summary = start_run(config, runs.path / "run");
      const auto predicted = static_cast<double>(summary.predicted_bytes);
      const auto measured = static_cast<double>(summary.peak_reserved_bytes);
      std::printf("%s in %lld MiB: predicted %.1f, measured %.1f MiB\n", network,
                  static_cast<long long>(budget), predicted / 0x1p20, measured / 0x1p20);
      EXPECT_NEAR(predicted, measured, 0.03 * measured) << network << " in " << budget << " MiB";
    }
  }
}

// Exact activations are profiled once, before steps are captured.
TEST_F(MemoryPlanOnCuda, KeepsNoRoomForProfilesThatAreNotRepeated) {
  RunConfig config = residual_run();
  config.model.name = "vit-small";
  config.activations.keep = "lossless";
  config.train.pass_size = 2;
  config.train.steps = 5;
  config.device.budget = "1GiB";
  const ScratchFolder runs;
  const RunSummary summary = start_run(config, runs.path / "run");
  const auto measured = static_cast<double>(summary.peak_reserved_bytes);
  EXPECT_NEAR(static_cast<double>(summary.predicted_bytes), measured, 0.03 * measured);
}

TEST_F(MemoryPlanOnCuda, TrainsWhereOnlyAllMeansTogetherFit) {
  RunConfig config = residual_run();
  std::int64_t least = 0;
  for (std::int64_t budget = 400; budget > 60; budget -= 20) {
    const ScratchFolder runs;
    config.device.budget = std::to_string(budget) + "MiB";
    try {
      const RunSummary summary = start_run(config, runs.path / "run");
      EXPECT_LE(summary.peak_reserved_bytes, budget << 20);
      EXPECT_NEAR(static_cast<double>(summary.predicted_bytes),
                  static_cast<double>(summary.peak_reserved_bytes),
                  0.03 * static_cast<double>(summary.peak_reserved_bytes))
          << "in " << budget << " MiB";
      least = budget;
    } catch (const OutOfMemory&) {
      break;
    }
  }
  RecordProperty("least_mib", static_cast<int>(least));
  std::printf("least budget: %lld MiB\n", static_cast<long long>(least));
  EXPECT_GT(least, 0);
}

}  // namespace
}  // namespace triaccel
