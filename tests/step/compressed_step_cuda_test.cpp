#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "tests/step/step_parts.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/policies/memory/held_bytes.h"
#include "triaccel/saved/saved_profile.h"
#include "triaccel/saved/saved_store.h"

namespace triaccel {
namespace {

/// A slim network in BF16 on the GPU.
struct SlimRun {
  explicit SlimRun(const std::optional<SavedStoreOptions>& saved,
                   const ModelOptions& model = {.name = "resnet18", .stem = "cifar", .width = 16}) {
    torch::manual_seed(3);
    network = make_model(model);
    network.module->to(kGpu);
    for (at::Tensor& weight : network.module->parameters())
      if (weight.dim() == 4) weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
    StepNetwork parts = step_network(network);
    const auto named = network.module->named_parameters();
    for (const LayerInfo& layer : network.layers.layers())
      parts.weights.push_back(named[layer.parameters.front()]);
    runner = std::make_unique<StepRunner>(
        parts, StepRunnerOptions{.layers = LayerOptions{}, .saved = saved}, gauge, kGpu);
    plan.batch_size = plan.micro_batch_size = 32;
    plan.layers.resize(static_cast<std::size_t>(network.layers.size()),
                       LayerPlan{.compute = Precision::Bf16});
    data = load_data({.name = "synthetic", .train_samples = 64, .channels_last = true}, kGpu);
  }

  /// The inputs of norms by `inputs`, the rest as it is.
  void keep_norm_inputs(const SavedPlan& inputs) {
    runner->take_census(plan, *data.train, ids);
    const std::vector<SavedStatistics> tensors = tensors_of(runner->census());
    std::vector<SavedPlan> plans(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].kind == SavedClass::NormInput) plans[i] = inputs;
    plan.saved = plans_by_entry(runner->census(), tensors, plans);
  }

  std::vector<at::Tensor> after_steps(int count) {
    for (int i = 0; i < count; ++i)
      runner->run(plan, *data.train, ids, {.augment = false, .epoch = 0, .seed = 1}, 0.02);
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : network.module->parameters())
      all.push_back(tensor.detach().to(at::kDouble).cpu());
    return all;
  }

  WorkStream stream{kGpu};
  MemoryGauge gauge{kGpu};
  Network network;
  LoadedData data;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
  at::Tensor ids = at::arange(32, at::TensorOptions(at::kLong).device(kGpu));
};

class CompressedStep : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    set_arithmetic(/*deterministic=*/true);
  }
};

TEST_F(CompressedStep, JoinsNormsWithTheirReluAndKeepsEveryReluMask) {
  SlimRun run(SavedStoreOptions{.seed = 1});
  run.keep_norm_inputs({});
  const auto& entries = run.runner->census().entries;
  const auto saved_by_norms = [&](ElementType type) {
    return std::ranges::count_if(entries, [&](const SavedEntry& entry) {
      return entry.consumer == "triaccel::NormFusion" && entry.type == type;
    });
  };
  EXPECT_EQ(saved_by_norms(ElementType::BF16), 20);
  EXPECT_EQ(saved_by_norms(ElementType::U8), 17) << "all but those of the three shortcuts";
  const auto shares = std::ranges::count_if(entries, [](const SavedEntry& entry) {
    return entry.kind == SavedClass::Positive && entry.mask >= 0;
  });
  EXPECT_GE(shares, 15) << "the output of the last is pooled";
}

/// But for single pixels and for statistics of norms, which fused operators keep themselves.
TEST_F(CompressedStep, HasTheFp32ReferenceOfAnUnfusedRun) {
  constexpr std::int64_t samples = 32;
  SlimRun run(SavedStoreOptions{.seed = 1}, {.name = "efficientnet-b0", .width = 16});
  run.keep_norm_inputs({});
  run.after_steps(1);
  const std::int64_t joined = fp32_bytes(tensors_of(run.runner->census()), samples);
  EXPECT_EQ(run.runner->saved()->counts().fp32_bytes, joined);

  run.network.module->to(kCpu);
  std::vector<at::Tensor> constants = run.network.module->parameters();
  for (const at::Tensor& buffer : run.network.module->buffers()) constants.push_back(buffer);
  SavedProfile profile(std::move(constants));
  const at::Tensor inputs = gather_unprepared(*run.data.train, run.ids).inputs.to(kCpu, at::kFloat);
  at::Tensor logits;
  {
    const SavedTensorScope scope(profile);
    logits = run.network.forward(inputs);
  }
  const std::int64_t plain = fp32_bytes(tensors_of(profile.census(logits, samples)), samples);
  EXPECT_NEAR(static_cast<double>(joined) / static_cast<double>(plain), 1, 0.05);
}

/// Codes of a norm's input are rounded at random: a step is an estimate of the raw one, and the
/// same one again.
TEST_F(CompressedStep, FollowsRawStepsAndRepeatsItself) {
  const SavedPlan eight_bits{.codec = SavedCodec::Groups, .eighths = 64};
  const auto coded = [&] {
    SlimRun run(SavedStoreOptions{.seed = 1});
    run.keep_norm_inputs(eight_bits);
    return run.after_steps(3);
  };
  const std::vector<at::Tensor> start = SlimRun(std::nullopt).after_steps(0),
                                raw = SlimRun(std::nullopt).after_steps(3), first = coded(),
                                second = coded();
  double apart = 0, moved = 0;  // squared
  for (std::size_t i = 0; i < raw.size(); ++i) {
    EXPECT_TRUE(at::equal(first[i], second[i])) << i;
    apart += (first[i] - raw[i]).square().sum().item<double>();
    moved += (raw[i] - start[i]).square().sum().item<double>();
  }
  EXPECT_LT(std::sqrt(apart), 0.25 * std::sqrt(moved));
}

}  // namespace
}  // namespace triaccel
