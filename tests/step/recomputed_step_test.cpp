#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/slim_models.h"
#include "tests/step/step_parts.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/saved/recomputed_segments.h"
#include "triaccel/step/forward_pass.h"

namespace triaccel {
namespace {

/// Steps whose layers take turns in BF16 and FP32.
struct RecomputeBench : CpuStep {
  RecomputeBench(const std::string& model, double share) {
    install_cpu_memory();
    torch::manual_seed(3);
    network = make_model(slim(model));
    StepNetwork parts = step_network(network);
    parts.weights = layer_weights(network);
    runner = std::make_unique<StepRunner>(
        parts, StepRunnerOptions{.layers = LayerOptions{.recompute_segments = share}}, gauge, kCpu);
    for (std::int64_t i = 0; i < network.layers.size(); ++i)
      plan.layers.push_back({.compute = i % 4 == 3 ? Precision::Fp32 : Precision::Bf16});
  }
};

class RecomputedStep : public testing::TestWithParam<const char*> {};

TEST_P(RecomputedStep, TrainsToTheSameBytesInLessMemory) {
  const auto after_steps = [](double share) {
    RecomputeBench bench(GetParam(), share);
    torch::manual_seed(7);
    bench.gauge.reset_peak();
    const std::int64_t used = bench.gauge.used();
    for (const auto& [batch, pass] : {std::pair{24, 24}, {24, 8}, {24, 24}}) bench.run(batch, pass);
    return std::pair(bench.state(), bench.gauge.read().peak - used);
  };
  const auto [kept, most] = after_steps(0);
  const auto [again, less] = after_steps(1);
  EXPECT_TRUE(same_bytes(again, kept));
  // Gradients of the weights of ResNets and VGGs outweigh what they save of images this small.
  const std::string name = GetParam();
  const bool saves_little = name.starts_with("resnet") || name.starts_with("vgg");
  EXPECT_LT(less, saves_little ? most * 5 / 4 : most * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Networks, RecomputedStep,
                         testing::Values("resnet18", "resnet50", "efficientnet-b0", "densenet121",
                                         "vgg16-bn", "vit-small"),
                         [](const auto& setting) {
                           std::string name = setting.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// Gradients and buffers after a pass whose norms fuse with what follows them, as on a GPU.
std::vector<at::Tensor> after_fused_pass(const std::string& model, bool recomputes,
                                         std::size_t& recomputed) {
  torch::manual_seed(3);
  const Network network = make_model(slim(model));
  for (at::Tensor& weight : network.module->parameters())
    if (weight.dim() == 4) weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
  const std::vector<at::Tensor> weights = layer_weights(network);
  LayerExecution layers(weights, {}, {}, {.fuse = true, .branches = false});
  layers.follow({weights.size(), LayerPlan{.compute = Precision::Bf16}}, 1);
  RecomputedSegments segments(
      kCpu, {.finish = [&] { layers.finish_deferred(); }, .again = layers.again()});
  segments.begin_pass(/*captured=*/false);
  const at::Tensor images = at::randn({8, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor output;
  {
    std::optional<SegmentScope> scope;
    if (recomputes) scope.emplace(segments);
    output = forward_pass(network.forward, images, {.layers = &layers});
  }
  EXPECT_TRUE(layers.used_each_weight_once());
  output.to(at::kFloat).square().sum().backward();
  EXPECT_TRUE(layers.used_each_weight_once());
  recomputed = segments.recomputed();
  std::vector<at::Tensor> all = network.module->buffers();
  for (const at::Tensor& parameter : network.module->parameters()) all.push_back(parameter.grad());
  return all;
}

TEST_P(RecomputedStep, FusesWithTheSameBits) {
  std::size_t none = 0, recomputed = 0;
  const std::vector<at::Tensor> kept = after_fused_pass(GetParam(), false, none);
  EXPECT_TRUE(same_bytes(after_fused_pass(GetParam(), true, recomputed), kept));
  EXPECT_EQ(none, 0U);
  EXPECT_GE(recomputed, 5U);
}

// An allocation that fails, in places all over a step: nothing changed, and the next try trains as
// without.
TEST(RecomputedFault, LeavesNothingBehindAndTheNextTryTrainsTheSame) {
  RecomputeBench kept("resnet18", 0), bench("resnet18", 0.5);
  const auto run = [](RecomputeBench& one) { one.run(16, 16); };
  torch::manual_seed(7);
  run(kept);
  torch::manual_seed(7);
  run(bench);
  std::int64_t refused = 0;
  for (std::int64_t k = 0, more = true; more; k += 37) {
    torch::manual_seed(k);
    run(kept);
    torch::manual_seed(k);
    const auto before = bench.state();
    const std::int64_t refusals = cpu_refusal_count();
    fail_cpu_allocation(k);
    try {
      run(bench);
      fail_cpu_allocation(-1);
    } catch (const OutOfMemory&) {
      fail_cpu_allocation(-1);
      ++refused;
      ASSERT_TRUE(same_bytes(bench.state(), before)) << k;
      run(bench);
    }
    more = cpu_refusal_count() > refusals;
    ASSERT_TRUE(same_bytes(bench.state(), kept.state())) << k;
  }
  EXPECT_GT(refused, 8);
}

TEST(RecomputedFault, ComposesWithNoOtherWayToKeepActivations) {
  const Network network = make_model(kSlimResnet);
  MemoryGauge gauge(kCpu);
  EXPECT_THROW(
      StepRunner(step_network(network),
                 {.layers = LayerOptions{.recompute_segments = 1}, .saved = SavedStoreOptions{}},
                 gauge, kCpu),
      UsageError);
}

}  // namespace
}  // namespace triaccel
