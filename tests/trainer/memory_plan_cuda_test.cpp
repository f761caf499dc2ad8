#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
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

struct Budgeted {
  std::string network;
  std::int64_t mebibytes;
};

class MemoryPlanOfOnCuda : public MemoryPlanOnCuda, public testing::WithParamInterface<Budgeted> {};

// Captured and eager steps, probes of curvature, all ways to need less memory.
TEST_P(MemoryPlanOfOnCuda, PredictsReservedMemory) {
  RunConfig config = residual_run();
  config.control.curvature = CurvatureSource::FisherGram;
  config.control.curvature_every = 3;
  config.train.steps = 7;  // few: the smallest passes are slow
  config.model.name = GetParam().network;
  config.device.budget = std::to_string(GetParam().mebibytes) + "MiB";
  const ScratchFolder runs;
  const RunSummary summary = start_run(config, runs.path / "run");
  const auto predicted = static_cast<double>(summary.predicted_bytes);
  const auto measured = static_cast<double>(summary.peak_reserved_bytes);
  std::printf("predicted %.1f, measured %.1f MiB\n", predicted / 0x1p20, measured / 0x1p20);
  EXPECT_NEAR(predicted, measured, 0.03 * measured);
}

INSTANTIATE_TEST_SUITE_P(Budgets, MemoryPlanOfOnCuda,
                         testing::Values(Budgeted{"resnet18", 140}, Budgeted{"resnet18", 182},
                                         Budgeted{"resnet18", 238}, Budgeted{"resnet18", 308},
                                         Budgeted{"vit-small", 260}, Budgeted{"vit-small", 338},
                                         Budgeted{"vit-small", 442}, Budgeted{"vit-small", 572}),
                         [](const auto& one) {
                           std::string name = one.param.network + "_" +
                                              std::to_string(one.param.mebibytes) + "MiB";
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

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

TEST_F(MemoryPlanOnCuda, StateInHostMemoryTakesNoneOfTheBudgetAndChangesNoBit) {
  RunConfig config = residual_run();
  config.train.deterministic = true;
  const auto trained = [&](StateFormat format) {
    config.train.optimizer_state = format;
    const ScratchFolder runs;
    const RunSummary summary = start_run(config, runs.path / "run");
    return std::pair(summary, final_weights(runs.path / "run"));
  };
  const auto [on_device, wanted] = trained(StateFormat::Fp32);
  const auto [on_host, found] = trained(StateFormat::Host);
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(on_device.host_state_bytes, 0);
  EXPECT_EQ(on_host.host_state_bytes, 4 * on_host.parameters);
  EXPECT_LE(on_host.peak_reserved_bytes, on_device.peak_reserved_bytes - 40'000'000);
}

// With losses forbidden nothing else takes the state out of the budget.
TEST_F(MemoryPlanOnCuda, MovesStateToHostMemoryWhereMemoryIsShort) {
  RunConfig config = residual_run();
  config.device.lossy = LossyMeans::Never;
  config.train.steps = 3;
  config.device.budget = "90MiB";
  std::string refused;
  const ScratchFolder runs;
  try {
    start_run(config, runs.path / "refused");
  } catch (const OutOfMemory& error) {
    refused = error.what();
  }
  EXPECT_NE(refused.find("optimizer state in host memory"), std::string::npos) << refused;
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
