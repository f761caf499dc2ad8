#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "tests/step/step_parts.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/side_stream.h"

namespace triaccel {
namespace {

struct OffloadSetting {
  ModelOptions model;
  bool graphs;
  bool planned;  // layers in BF16 by our own kernels, or libtorch's in FP32
};

const ModelOptions kResidualMaps{.name = "resnet18", .stem = "cifar", .width = 16};
const ModelOptions kGatedMaps{.name = "efficientnet-b0", .width = 16};

/// A network on the GPU, with what backward needs on the host or as it is.
struct OffloadBenchOnCuda {
  OffloadBenchOnCuda(const OffloadSetting& setting, bool offloads) {
    torch::manual_seed(3);
    network = make_model(setting.model);
    network.module->to(kGpu);
    for (at::Tensor& weight : network.module->parameters())
      if (weight.dim() == 4) weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
    StepNetwork parts = step_network(network);
    const auto named = network.module->named_parameters();
    for (const LayerInfo& layer : network.layers.layers())
      parts.weights.push_back(named[layer.parameters.front()]);
    StepRunnerOptions options{.graphs = setting.graphs};
    if (setting.planned) options.layers = LayerOptions{};
    if (offloads) options.saved = SavedStoreOptions{.exact = true};
    runner = std::make_unique<StepRunner>(parts, options, gauge, kGpu);
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()),
                       LayerPlan{.compute = setting.planned ? Precision::Bf16 : Precision::Fp32});
    data = load_data({.name = "synthetic", .train_samples = 512, .channels_last = true}, kGpu);
    if (!offloads) return;
    plan.batch_size = plan.micro_batch_size = 11;
    runner->take_census(plan, *data.train, ids.narrow(0, 0, 11));
    plan.saved = all_on_host(runner->census());
  }

  void run(std::int64_t batch, std::int64_t pass) {
    plan.batch_size = batch;
    plan.micro_batch_size = pass;
    runner->run(plan, *data.train, ids.narrow(0, 0, batch), {.epoch = ++steps, .seed = 1}, 0.02);
  }

  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : network.module->parameters())
      all.push_back(tensor.detach().clone());
    for (const at::Tensor& tensor : network.module->buffers()) all.push_back(tensor.clone());
    return all;
  }

  WorkStream stream{kGpu};
  MemoryGauge gauge{kGpu};
  Network network;
  LoadedData data;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
  at::Tensor ids = at::arange(512, at::TensorOptions(at::kLong).device(kGpu));
  std::int64_t steps = 0;
};

class OffloadedStepOnCuda : public testing::TestWithParam<OffloadSetting> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    set_arithmetic(/*deterministic=*/true);
    allow_expandable_segments();  // as every run does
  }
  void TearDown() override { set_arithmetic(/*deterministic=*/false); }
};

// Steps of one pass and of several, and of passes of other sizes.
TEST_P(OffloadedStepOnCuda, TrainsToTheSameBytes) {
  const auto after_steps = [&](bool offloads) {
    OffloadBenchOnCuda bench(GetParam(), offloads);
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
    OffloadBenchOnCuda bench(GetParam(), offloads);
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
