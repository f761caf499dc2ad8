#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/trainer/small_run.h"
#include "triaccel/base/error.h"
#include "triaccel/core/sampler.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/trainer/loop/memory_census.h"
#include "triaccel/trainer/loop/torch_engine.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {
namespace {

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

TEST_F(MemoryPlanOnCuda, PredictsReservedMemory) {
  RunConfig config = residual_run();
  config.control.batch = BatchMode::Off;
  std::vector<MemoryPlan> plans;
  {
    RunParts parts(without_budget(config));
    const MemoryCensus census = take_memory_census(parts);
    for (const MemoryPlan& plan : memory_plans(census.costs, census.request)) {
      if (plan.pass.recompute_norms || plan.data_on_host ||
          plan.pass.activations == ActivationFormat::Lossless ||
          (plan.pass_size != 96 && plan.pass_size != 16) ||
          plan.pass.casts_by_layer != plan.state_in_8_bits)  // not all combinations
        continue;
      const auto measured = measured_plan(parts, plan, /*profile=*/true);
      ASSERT_TRUE(measured);
      plans.push_back(*measured);
    }
  }
  ASSERT_GE(plans.size(), 8u);
  for (const MemoryPlan& plan : plans) {
    const ScratchFolder runs;
    const RunSummary summary =
        start_run(resolved(with_memory_plan(config, plan)), runs.path / "run");
    const auto measured = static_cast<double>(summary.peak_reserved_bytes);
    std::printf("predicted %.1f, measured %.1f MiB\n", static_cast<double>(plan.bytes()) / 0x1p20,
                measured / 0x1p20);
    EXPECT_NEAR(static_cast<double>(plan.bytes()), measured, 0.03 * measured)
        << plan.pass_size << " samples a pass, eager " << plan.pass.eager << ", by layer "
        << plan.pass.casts_by_layer << ", 8 bits " << plan.state_in_8_bits << ", compressed "
        << (plan.pass.activations == ActivationFormat::Compressed);
  }
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
