#include "triaccel/step/saved_probe.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <numeric>
#include <optional>

#include "tests/step/step_parts.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {
namespace {

/// A slim residual network behind a dropout, whose saved tensors are looked at.
struct LookedAt {
  explicit LookedAt(const std::optional<LayerOptions>& layers = {}) {
    install_cpu_memory();
    torch::manual_seed(3);
    network = make_model({.name = "resnet18", .stem = "cifar", .width = 8});
    StepNetwork parts = step_network(network);
    const auto named = network.module->named_parameters();
    for (const LayerInfo& layer : network.layers.layers())
      parts.weights.push_back(named[layer.parameters.front()]);
    parts.forward = [this](const at::Tensor& x) {
      return network.forward(at::dropout(x, 0.25, /*train=*/true));
    };
    runner = std::make_unique<StepRunner>(
        parts, StepRunnerOptions{.layers = layers, .saved = SavedStoreOptions{.seed = 1}}, gauge,
        kCpu);
    plan.batch_size = plan.micro_batch_size = 12;
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()));
    look();
  }

  void look() {
    runner->take_census(plan, synthetic_samples(), ids);
    tensors = tensors_of(runner->census());
  }

  /// Values by one codec, signs as masks, the rest as it is.
  CompressionNoise noise(const SavedPlan& values) {
    std::vector<SavedPlan> plans(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (keeps_values(tensors[i].kind))
        plans[i] = values;
      else if (tensors[i].kind == SavedClass::Sign)
        plans[i] = {.codec = SavedCodec::Mask};
    plan.saved = plans_by_entry(runner->census(), tensors, plans);
    return runner->compression_noise(plan, synthetic_samples(), ids);
  }

  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all =
        step_state(network, {&runner->optimizer(), &runner->gradient_control()});
    all.push_back(runner->saved()->passes().clone());
    return all;
  }

  MemoryGauge gauge{kCpu};
  at::Tensor ids = at::arange(11);
  Network network;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
  std::vector<SavedStatistics> tensors;
};

SavedPlan groups_of(int bits) {
  return {.codec = SavedCodec::Groups, .eighths = static_cast<std::uint8_t>(8 * bits)};
}

TEST(CompressionNoise, FallsWithTheBitsAndIsComparedWithTheBatchs) {
  LookedAt run;
  const CompressionNoise two = run.noise(groups_of(2)), four = run.noise(groups_of(4)),
                         eight = run.noise(groups_of(8));
  EXPECT_GT(two.compression_variance, 5 * four.compression_variance);
  EXPECT_GT(four.compression_variance, 50 * eight.compression_variance);
  EXPECT_GT(eight.compression_variance, 0);
  EXPECT_GT(two.error, 5 * four.error);
  EXPECT_LT(eight.error, 1e-3);
  EXPECT_GT(two.batch_variance, 0);
  EXPECT_EQ(two.batch_variance, eight.batch_variance) << "it knows nothing of codes";
  EXPECT_LT(eight.compression_variance, 1e-3 * eight.batch_variance);
}

TEST(CompressionNoise, IsToldLayerByLayer) {
  LookedAt run;
  const CompressionNoise noise = run.noise(groups_of(2));
  ASSERT_EQ(noise.layers.size(), run.plan.layers.size());
  double variance = 0;
  for (const LayerCompressionNoise& layer : noise.layers) {
    variance += layer.variance;
    EXPECT_GT(layer.square, 0);
  }
  EXPECT_NEAR(variance, noise.compression_variance, 1e-9 * variance);
  EXPECT_GT(noise.layers.front().variance, 0);
}

// Codes of one layer's tensors show in its gradient, and in those before it through the norm.
TEST(CompressionNoise, ComesFromTheLayerThatReadsWhatIsCompressedOrFromBehindIt) {
  LookedAt run;
  const std::int64_t middle = run.network.layers.layer_of("layer2.1.conv2.weight");
  std::vector<SavedPlan> plans(run.tensors.size());
  for (std::size_t i = 0; i < run.tensors.size(); ++i)
    if (run.tensors[i].layer == middle && keeps_values(run.tensors[i].kind))
      plans[i] = groups_of(2);
  run.plan.saved = plans_by_entry(run.runner->census(), run.tensors, plans);
  const CompressionNoise noise =
      run.runner->compression_noise(run.plan, synthetic_samples(), run.ids);
  const auto place = static_cast<std::size_t>(middle);
  EXPECT_GT(noise.layers[place].variance, 0);
  for (std::size_t l = place + 1; l < noise.layers.size(); ++l)
    EXPECT_EQ(noise.layers[l].variance, 0) << l;
}

// One buffer may hold all parameters, as on a GPU.
TEST(SavedProbe, KnowsTheLayersThatReadWhatIsSaved) {
  for (const bool ours : {false, true}) {
    LookedAt run = ours ? LookedAt(LayerOptions{}) : LookedAt();
    std::int64_t elements = 0;
    for (const at::Tensor& parameter : run.network.module->parameters())
      elements += parameter.numel();
    const at::Tensor buffer = at::empty({elements});
    for (at::Tensor parameter : run.network.module->parameters()) {
      elements -= parameter.numel();
      const at::Tensor part = buffer.narrow(0, elements, parameter.numel());
      parameter.set_data(part.view_as(parameter).copy_(parameter));
    }
    run.look();
    std::vector<int> norms(run.plan.layers.size()), products(run.plan.layers.size());
    std::int64_t last = 0;
    for (const SavedEntry& entry : run.runner->census().entries) {
      const bool product = entry.kind == SavedClass::Factor || entry.kind == SavedClass::Positive;
      if (!product && entry.kind != SavedClass::NormInput) continue;
      ASSERT_GE(entry.layer, 0) << entry.consumer << ", ours " << ours;
      ASSERT_LT(entry.layer, static_cast<std::int64_t>(norms.size()));
      ++(product ? products : norms)[static_cast<std::size_t>(entry.layer)];
      if (product) last = std::max(last, entry.layer);
    }
    for (std::size_t l = 0; l + 1 < norms.size(); ++l) EXPECT_EQ(norms[l], 1) << l << ours;
    EXPECT_GE(last, static_cast<std::int64_t>(norms.size()) - 2);
  }
}

TEST(GradientErrors, OfSingleTensorsAddUpToThatOfAll) {
  LookedAt run;
  const CompressionNoise all = run.noise(groups_of(4));
  std::vector<std::vector<SavedPlan>> alone;
  for (std::size_t i = 0; i < run.tensors.size(); ++i) {
    if (!keeps_values(run.tensors[i].kind)) continue;
    std::vector<SavedPlan> plans(run.tensors.size());
    plans[i] = groups_of(4);
    alone.push_back(plans_by_entry(run.runner->census(), run.tensors, plans));
  }
  alone.emplace_back(run.runner->census().entries.size());  // without loss
  const std::vector<at::Tensor> before = run.state();
  DatasetBatch batch = run.runner->samples_of(synthetic_samples(), run.ids);
  const std::vector<double> errors = run.runner->gradient_errors(run.plan, alone, batch);
  ASSERT_EQ(errors.size(), alone.size());
  EXPECT_EQ(errors.back(), 0);
  EXPECT_NEAR(std::accumulate(errors.begin(), errors.end(), 0.0), all.error, 0.3 * all.error);
  const std::vector<at::Tensor> after = run.state();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
}

TEST(CompressionNoise, IsNoneWithoutLoss) {
  LookedAt run;
  const CompressionNoise none = run.noise({});
  EXPECT_EQ(none.compression_variance, 0);
  EXPECT_EQ(none.error, 0);
  EXPECT_GT(none.batch_variance, 0);
}

/// Every second layer in FP16, computed on rounded values, the rest in BF16.
LookedAt with_low_layers() {
  constexpr ConvolutionKernel emulated{.arithmetic = Arithmetic::Fp32};
  LayerOptions layers;
  layers.kernels.layers.assign(
      static_cast<std::size_t>(
          make_model({.name = "resnet18", .stem = "cifar", .width = 8}).layers.size()),
      {.bf16 = emulated, .fp16 = emulated});
  return LookedAt(layers);
}

TEST(SavedProbe, LeavesEverythingAsItWas) {
  for (const bool low : {false, true}) {
    LookedAt run = low ? with_low_layers() : LookedAt();
    for (std::size_t i = 0; low && i < run.plan.layers.size(); ++i)
      run.plan.layers[i].compute = i % 2 == 0 ? Precision::Fp16 : Precision::Bf16;
    const auto step = [&] {
      run.runner->run(run.plan, synthetic_samples(), at::arange(12), {}, 0.05);
    };
    step();
    const std::vector<at::Tensor> before = run.state();
    run.look();
    EXPECT_FALSE(run.runner->error_gains(run.plan, synthetic_samples(), run.ids).empty());
    EXPECT_GT(run.noise(groups_of(3)).compression_variance, 0);
    EXPECT_TRUE(same_bytes(run.state(), before)) << "low " << low;
    for (const at::Tensor& parameter : run.network.module->parameters())
      EXPECT_FALSE(parameter.grad().defined());
  }
}

// Nodes of ours show autograd no weight.
TEST(SavedProbe, FindsTheSameGainsWhoeverComputesTheLayers) {
  LookedAt plain;
  LookedAt ours(LayerOptions{});
  const auto wanted = plain.runner->error_gains(plain.plan, synthetic_samples(), plain.ids);
  const auto found = ours.runner->error_gains(ours.plan, synthetic_samples(), ours.ids);
  ASSERT_EQ(found.size(), wanted.size());
  EXPECT_GT(found.size(), 10u);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i].gain / wanted[i].gain, 1, 1e-3) << i;
    EXPECT_NEAR(found[i].weight_gradient_square / wanted[i].weight_gradient_square, 1, 1e-3) << i;
  }
}

}  // namespace
}  // namespace triaccel
