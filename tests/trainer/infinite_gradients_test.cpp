#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "tests/trainer/watched_run.h"
#include "triaccel/models/network.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

/// Layers of both kinds, with a norm; the gradient of one layer's output is infinite on demand.
struct Fragile : nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor maps = torch::relu(norm(watched(0, wide(x))));
    const at::Tensor values = torch::relu(watched(1, deep(maps))).flatten(1);
    return watched(3, last(torch::relu(watched(2, inner(values)))));
  }
  at::Tensor watched(std::int64_t layer, at::Tensor output) const {
    if (layer == broken && output.requires_grad())
      output.register_hook([](const at::Tensor& gradient) {
        return at::full_like(gradient, std::numeric_limits<float>::infinity());
      });
    return output;
  }
  nn::Conv2d wide = register_module("wide", nn::Conv2d(nn::Conv2dOptions(1, 4, 5).stride(2)));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(4));
  nn::Conv2d deep = register_module("deep", nn::Conv2d(nn::Conv2dOptions(4, 8, 5).stride(2)));
  nn::Linear inner = register_module("inner", nn::Linear(8 * 4 * 4, 16));
  nn::Linear last = register_module("last", nn::Linear(16, 10));
  std::int64_t broken = -1;  // layer; none
};

constexpr std::int64_t kLayers = 4;

struct FragileRun : WatchedRun {
  FragileRun(const RunConfig& wanted, std::shared_ptr<Fragile> own)
      : WatchedRun(wanted, as_network(own, "fragile")), module(std::move(own)) {}
  explicit FragileRun(const RunConfig& wanted) : FragileRun(wanted, std::make_shared<Fragile>()) {}

  std::shared_ptr<Fragile> module;
};

/// Breaks one layer in one step, and looks at everything a step may change before and after.
struct BrokenInOneStep : FragileRun {
  using FragileRun::FragileRun;

  void after_step() override {
    WatchedRun::after_step();
    ++steps;
    std::vector<std::byte> now = state();
    const float scale_now = scale();
    if (module->broken >= 0) {
      EXPECT_EQ(now, before) << "a skipped step changes nothing";
      halved = scale_now <= scale_before / 2;
    } else {
      EXPECT_NE(now, before) << "and the others train";
    }
    before = std::move(now);
    scale_before = scale_now;
    module->broken = steps == 3 ? layer : -1;
  }

  /// Weights, buffers and what the optimizer keeps.
  std::vector<std::byte> state() const {
    std::vector<std::byte> bytes;
    for (const std::vector<StateView>& views :
         {network_state(parts.network), parts.runner->optimizer().state()})
      for (const StateView& view : views)
        bytes.insert(bytes.end(), view.bytes.begin(), view.bytes.end());
    return bytes;
  }

  float scale() const {
    return layer < 0 ? 1 : parts.runner->gradient_control().layer_scales()[layer][0].item<float>();
  }

  std::int64_t layer = -1;
  std::int64_t steps = 0;
  std::vector<std::byte> before;
  float scale_before = 1;
  bool halved = false;
};

RunConfig fragile_run() {
  RunConfig config = digits_run();
  config.train.batch = 8;
  config.data.train_samples = 48;
  config.control.batch = "off";
  config.control.curvature = "off";
  config.device.threads = 1;
  return config;
}

class InfiniteGradients : public testing::TestWithParam<const char*> {};

// Of each layer, in each format: the step is skipped, the layer named, and the next step trains.
TEST_P(InfiniteGradients, CostOneStepAndChangeNothing) {
  RunConfig config = fragile_run();
  config.control.precision = GetParam();
  const bool fp16 = config.control.precision == "fp16";
  for (std::int64_t layer = -1; layer < kLayers; ++layer) {
    BrokenInOneStep run(config);
    run.layer = layer;
    const RunSummary summary = run.run();
    EXPECT_EQ(summary.skipped_steps, layer < 0 ? 0 : 1) << layer;
    EXPECT_EQ(summary.steps, 12);
    EXPECT_TRUE(run.each_sample_once(2));
    if (layer < 0) continue;
    EXPECT_TRUE(run.noticed("layer '" + run.parts.network.layers[layer].name + "'"))
        << testing::PrintToString(run.notices);
    EXPECT_TRUE(run.halved || !fp16) << "the scale of layer " << layer;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, InfiniteGradients, testing::Values("fp32", "bf16", "fp16"),
                         [](const auto& format) { return std::string(format.param); });

/// Breaks one layer for as long as it computes in FP16.
struct BrokenInFp16 : FragileRun {
  using FragileRun::FragileRun;
  void plan(std::int64_t step, const StepPlan& next) override {
    WatchedRun::plan(step, next);
    const bool fp16 = next.layers[static_cast<std::size_t>(layer)].compute == Precision::Fp16;
    module->broken = fp16 ? layer : -1;
  }
  std::int64_t layer = 0;
};

TEST(InfiniteGradients, LiftTheirLayerAloneAfterThreeSkips) {
  RunConfig config = fragile_run();
  config.control.policy = "paper";
  config.control.precision_rules.tau_low = config.control.precision_rules.tau_high =
      1e30;  // FP16 from the first decision on
  config.train.control_interval = 1000;
  config.train.epochs = 4;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    BrokenInFp16 run(config);
    run.layer = layer;
    const RunSummary summary = run.run();
    EXPECT_EQ(summary.skipped_steps, 3) << testing::PrintToString(run.notices);
    for (std::int64_t other = 0; other < kLayers; ++other)
      EXPECT_EQ(run.ran.back().layers[static_cast<std::size_t>(other)].compute,
                other == layer ? Precision::Bf16 : Precision::Fp16)
          << layer << ", " << other;
  }
}

}  // namespace
}  // namespace triaccel
