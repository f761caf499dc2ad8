#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/step/step_parts.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/side_stream.h"

namespace triaccel {

/// Steps on the GPU that give the same bits run after run. Skipped where there is none.
template <typename Setting>
class GpuStepTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    set_arithmetic(/*deterministic=*/true);
    allow_expandable_segments();  // as every run does
  }
  void TearDown() override {
    if (!at::hasCUDA()) return;
    set_arithmetic(/*deterministic=*/false);
    limit_cuda_memory(0);  // a test that fails leaves its limit
  }
};

/// A network on the GPU with a runner of its own, its layers in one precision.
struct GpuStep {
  /// With options.saved everything that a pass saves goes to host memory.
  GpuStep(const ModelOptions& model, const StepRunnerOptions& options, Precision precision) {
    torch::manual_seed(3);
    network = make_model(model);
    network.module->to(kGpu);
    for (at::Tensor& weight : network.module->parameters())
      if (weight.dim() == 4) weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
    StepNetwork parts = step_network(network);
    parts.weights = layer_weights(network);
    runner = std::make_unique<StepRunner>(parts, options, gauge, kGpu);
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()),
                       LayerPlan{.compute = precision});
    data = load_data({.name = "synthetic", .train_samples = 512, .channels_last = true}, kGpu);
    if (!options.saved) return;
    plan.batch_size = plan.micro_batch_size = 11;
    runner->take_census(plan, *data.train, ids.narrow(0, 0, 11));
    plan.saved = all_on_host(runner->census());
  }

  void run(std::int64_t batch, std::int64_t pass) {
    plan.batch_size = batch;
    plan.micro_batch_size = pass;
    runner->run(plan, *data.train, ids.narrow(0, 0, batch), {.epoch = 1, .seed = 1}, 0.02);
  }

  /// Every byte a step may change.
  std::vector<at::Tensor> state() const {
    return step_state(network, {&runner->optimizer(), &runner->gradient_control()});
  }

  WorkStream stream{kGpu};
  MemoryGauge gauge{kGpu};
  Network network;
  LoadedData data;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
  at::Tensor ids = at::arange(512, at::TensorOptions(at::kLong).device(kGpu));
};

}  // namespace triaccel
