#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "tests/step/gpu_step.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"

namespace triaccel {
namespace {

struct OffloadSetting {
  ModelOptions model;
  bool graphs;
  bool planned;  // layers in BF16 by our own kernels, or libtorch's in FP32
};

const ModelOptions kResidualMaps{.name = "resnet18", .stem = "cifar", .width = 16};
const ModelOptions kGatedMaps{.name = "efficientnet-b0", .width = 16};

/// With what backward needs on the host or as it is.
GpuStep make_step(const OffloadSetting& setting, bool offloads) {
  StepRunnerOptions options{.graphs = setting.graphs};
  if (setting.planned) options.layers = LayerOptions{};
  if (offloads) options.saved = SavedStoreOptions{.exact = true};
  return {setting.model, options, setting.planned ? Precision::Bf16 : Precision::Fp32};
}

class OffloadedStepOnCuda : public GpuStepTest<OffloadSetting> {};

// Steps of one pass and of several, and of passes of other sizes.
TEST_P(OffloadedStepOnCuda, TrainsToTheSameBytes) {
  const auto after_steps = [&](bool offloads) {
    GpuStep bench = make_step(GetParam(), offloads);
    for (int round = 0; round < 3; ++round) {
      bench.run(64, 64);
      bench.run(128, 64);
      bench.run(96, 32);
    }
    const StepReport report = bench.runner->collect();
    if (offloads) {
      EXPECT_EQ(report.saved->mismatches, 0);
      EXPECT_GT(report.saved->host_bytes(), 0);
      EXPECT_GE(bench.runner->saved()->host_bytes(), report.saved->host_bytes());
    }
    std::vector<at::Tensor> state = bench.state();
    state.push_back(at::scalar_tensor(report.loss, at::kDouble));
    return state;
  };
  const std::vector<at::Tensor> raw = after_steps(false), offloaded = after_steps(true);
  for (std::size_t i = 0; i < raw.size(); ++i) EXPECT_TRUE(at::equal(offloaded[i], raw[i])) << i;
}

TEST_P(OffloadedStepOnCuda, ReservesLessOfTheDevice) {
  if (GetParam().model.name != kResidualMaps.name) GTEST_SKIP() << "its maps are too small";
  const auto reserved = [&](bool offloads) {
    GpuStep bench = make_step(GetParam(), offloads);
    bench.gauge.release_cache();
    bench.gauge.reset_peak();
    for (int step = 0; step < 3; ++step) bench.run(512, 512);
    synchronize(kGpu);
    return bench.gauge.read().reserved;
  };
  const std::int64_t raw = reserved(false);
  release_cuda_cache();
  EXPECT_LT(reserved(true), raw * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(Executions, OffloadedStepOnCuda,
                         testing::Values(OffloadSetting{kResidualMaps, false, false},
                                         OffloadSetting{kResidualMaps, true, false},
                                         OffloadSetting{kResidualMaps, false, true},
                                         OffloadSetting{kResidualMaps, true, true},
                                         OffloadSetting{kGatedMaps, true, true}));

}  // namespace
}  // namespace triaccel
