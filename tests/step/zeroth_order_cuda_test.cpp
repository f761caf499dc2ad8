#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/step/step_parts.h"
#include "triaccel/data/load_data.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/models/families.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/step/step_runner.h"

namespace triaccel {
namespace {

/// The same network, data and steps on either device; layers before the last `bp_layers` train by
/// the loss alone.
struct ElasticBench {
  ElasticBench(c10::Device where, const ModelOptions& model, std::int64_t bp_layers,
               const ZerothOrderOptions& zeroth, bool graphs)
      : device(where), stream(where), gauge(where) {
    torch::manual_seed(3);
    network = make_model(model);
    initialise_without_norms(*network.module);
    network.module->to(device);
    data = load_data({.name = "synthetic", .train_samples = 256}, device);
    runner = std::make_unique<StepRunner>(
        step_network(network), StepRunnerOptions{.zeroth_order = zeroth, .graphs = graphs}, gauge,
        device);
    plan = {.batch_size = 32, .micro_batch_size = 16};
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()));
    for (std::int64_t i = 0; i + bp_layers < network.layers.size(); ++i)
      plan.layers[static_cast<std::size_t>(i)].gradient = GradientSource::ZerothOrder;
    ids = at::arange(256, at::TensorOptions(at::kLong).device(device));
  }

  void steps(std::int64_t count) {
    for (std::int64_t step = 0; step < count; ++step)
      runner->run(plan, *data.train, ids.narrow(0, 32 * (step % 8), 32),
                  {.augment = true, .seed = 1}, 0.01, 1e-4 / static_cast<double>(1 + step));
  }

  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : network.module->parameters())
      all.push_back(tensor.detach().cpu());
    for (const at::Tensor& tensor : network.module->buffers()) all.push_back(tensor.cpu());
    return all;
  }

  c10::Device device;
  WorkStream stream;
  MemoryGauge gauge;
  Network network;
  LoadedData data;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
  at::Tensor ids;
};

class ZerothOrderCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    set_arithmetic(/*deterministic=*/true);
  }
  void TearDown() override { set_arithmetic(false); }
  const c10::Device gpu_ = c10::Device(c10::kCUDA, 0);
};

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i], b[i])) return false;
  return a.size() == b.size();
}

TEST_F(ZerothOrderCuda, ReplaysCapturedStepsToTheSameBits) {
  const ZerothOrderOptions options{.directions = 2, .momentum = 0.5, .momentum_steps = 3};
  for (const std::int64_t bp_layers : {0, 2})
    for (const ModelOptions& model :
         {ModelOptions{.name = "lenet5"}, ModelOptions{.name = "resnet18", .width = 8}}) {
      ElasticBench eager(gpu_, model, bp_layers, options, false);
      ElasticBench captured(gpu_, model, bp_layers, options, true);
      eager.steps(10);
      captured.steps(10);
      ASSERT_NE(captured.runner->graphs(), nullptr);
      EXPECT_GE(captured.runner->graphs()->counts().replays, 8);
      EXPECT_EQ(captured.runner->collect().zeroth_order, eager.runner->collect().zeroth_order);
      EXPECT_TRUE(same(eager.state(), captured.state())) << model.name << ' ' << bp_layers;
    }
}

TEST_F(ZerothOrderCuda, RedoesARunOfTheGpuOnTheCpuToTheLastBit) {
  const ZerothOrderOptions options{.directions = 2, .momentum = 0.5, .seed = 7};
  ElasticBench there(gpu_, {.name = "lenet5"}, 0, options, true);
  ElasticBench here(c10::Device(c10::kCPU), {.name = "lenet5"}, 0, options, false);
  there.steps(12);
  here.runner->divide_layers(here.plan);
  for (const ZerothOrderStep& step : there.runner->collect().zeroth_order)
    here.runner->zeroth_order()->redo(step);
  EXPECT_TRUE(same(there.state(), here.state()));
}

TEST_F(ZerothOrderCuda, DrawsTheSameMasksInBothPasses) {
  ElasticBench bench(gpu_, {.name = "lenet5"}, 0, {}, true);
  StepNetwork parts{.forward =
                        [&](const at::Tensor& x) {
                          return bench.network.forward(x) * 0 +
                                 at::dropout(x.flatten(1).narrow(1, 0, 10), 0.5, true);
                        },
                    .layer_count = bench.network.layers.size()};
  for (const auto& item : bench.network.module->named_parameters())
    parts.parameters.push_back(
        {item.key(), item.value(), bench.network.layers.layer_of(item.key())});
  StepRunner runner(parts, {.zeroth_order = ZerothOrderOptions{}, .graphs = true}, bench.gauge,
                    gpu_);
  for (int step = 0; step < 4; ++step)
    runner.run(bench.plan, *bench.data.train, bench.ids.narrow(0, 0, 32), {}, 0, 1e-4);
  for (const ZerothOrderStep& step : runner.collect().zeroth_order)
    EXPECT_EQ(step.gradients.front(), 0);
}

TEST_F(ZerothOrderCuda, LearnsAndTakesNoMoreMemoryThanInference) {
  ElasticBench bench(gpu_, {.name = "resnet18"}, 0, {}, false);
  bench.steps(1);
  const auto peak_of = [&](const auto& work) {
    const std::int64_t before = bench.gauge.read().used;
    bench.gauge.reset_peak();
    work();
    return bench.gauge.read().peak - before;
  };
  const std::int64_t step = peak_of([&] { bench.steps(1); });
  const std::int64_t inference = peak_of([&] {
    const torch::NoGradGuard no_grad;
    bench.network.forward(bench.data.train->gather(bench.ids.narrow(0, 0, 16), {}).inputs);
  });
  const auto weights = static_cast<double>(4 * 11'000'000);
  EXPECT_LT(static_cast<double>(step) + weights, 1.02 * (static_cast<double>(inference) + weights));
}

}  // namespace
}  // namespace triaccel
