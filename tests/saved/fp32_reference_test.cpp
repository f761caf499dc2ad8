#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/saved/saved_pass.h"
#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/policies/compression/saved_planner.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

constexpr std::int64_t kSamples = 4;

enum class How { Silu, SiluInPlace, SiluBehindAnotherReader, Relu };

/// Two convolutions, each with a norm and an activation; what is pooled last is not saved.
struct TwoNorms {
  TwoNorms() {
    torch::manual_seed(1);
    input = torch::randn({kSamples, 3, 18, 18}).contiguous(at::MemoryFormat::ChannelsLast);
    for (const at::Tensor& weight : {first->weight, second->weight})
      weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
    for (const auto& module : std::vector<std::shared_ptr<torch::nn::Module>>{
             first.ptr(), norm.ptr(), second.ptr(), last.ptr()})
      for (const at::Tensor& tensor : constants_of(*module)) constants.push_back(tensor);
  }

  at::Tensor forward(How how) {
    const at::Tensor map = first(input);
    const at::Tensor more =
        how == How::SiluBehindAnotherReader ? map.square().mean({2, 3}) : at::zeros({});
    at::Tensor y = norm(map);
    y = how == How::SiluInPlace ? at::silu_(y) : how == How::Relu ? at::relu(y) : at::silu(y);
    return at::silu(last(second(y))).mean({2, 3}) + more;
  }

  torch::nn::Conv2d first{torch::nn::Conv2dOptions(3, 8, 3).bias(false)};
  torch::nn::Conv2d second{torch::nn::Conv2dOptions(8, 8, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm{8}, last{8};
  at::Tensor input;
  std::vector<at::Tensor> constants;
};

Forward fused(const Forward& forward) {
  return [forward] {
    LayerExecution execution({}, {}, {}, {.fuse = true});
    const OperatorScope scope(execution);
    execution.begin_pass();
    at::Tensor result = forward();
    execution.end_pass();
    return result;
  };
}

/// Without the statistics of norms, which a fused norm keeps itself: two numbers per channel.
std::int64_t fp32_bytes_of(const SavedCensus& census) {
  std::vector<SavedStatistics> tensors = tensors_of(census);
  std::erase_if(
      tensors, [](const SavedStatistics& tensor) { return tensor.kind == SavedClass::Statistics; });
  return fp32_bytes(tensors, census.samples);
}

TEST(Fp32Reference, IsThatOfAnUnfusedRun) {
  TwoNorms run;
  for (const How how : {How::Silu, How::SiluInPlace, How::SiluBehindAnotherReader, How::Relu}) {
    const Forward forward = [&] { return run.forward(how); };
    const SavedCensus plain = census_of(forward, run.constants, kSamples);
    const SavedCensus joined = census_of(fused(forward), run.constants, kSamples);
    ASSERT_TRUE(std::ranges::any_of(joined.entries, [](const SavedEntry& entry) {
      return entry.consumer == "triaccel::NormFusion";
    }));
    EXPECT_LT(joined.unique_bytes(), plain.unique_bytes());
    EXPECT_EQ(fp32_bytes_of(joined), fp32_bytes_of(plain)) << static_cast<int>(how);

    const std::vector<SavedStatistics> tensors = tensors_of(joined);
    SavedStore store({}, run.constants, at::kCPU);
    store.follow(joined, plans_by_entry(joined, tensors, lossless_plans(tensors)));
    kept(store, fused(forward)).sum().backward();
    EXPECT_EQ(store.counts().mismatches, 0);
    EXPECT_EQ(store.counts().fp32_bytes, fp32_bytes(tensors, kSamples)) << static_cast<int>(how);
    EXPECT_EQ(budget_for(tensors, 4, kSamples), fp32_bytes_of(plain) / 4);
  }
}

/// All that differs are single pixels.
TEST(Fp32Reference, OfEfficientNetIsThatOfAnUnfusedRun) {
  SlimRun run(slim("efficientnet-b0"), 4);
  run.input = run.input.contiguous(at::MemoryFormat::ChannelsLast);
  for (at::Tensor& weight : run.network.module->parameters())
    if (weight.dim() == 4) weight.set_data(weight.contiguous(at::MemoryFormat::ChannelsLast));
  const Forward forward = [&] { return run.forward(); };
  const std::int64_t samples = run.input.size(0);
  const SavedCensus plain = census_of(forward, run.constants, samples);
  const SavedCensus joined = census_of(fused(forward), run.constants, samples);
  EXPECT_LT(joined.unique_bytes(), plain.unique_bytes() * 3 / 4);
  const auto of_plain = static_cast<double>(fp32_bytes_of(plain));
  EXPECT_NEAR(static_cast<double>(fp32_bytes_of(joined)), of_plain, 0.01 * of_plain);
}

/// Without a plan nobody knows the operators of a pass.
TEST(Fp32Reference, CountsWhatIsSavedWhereNothingIsPlanned) {
  TwoNorms run;
  SavedStore store({}, run.constants, at::kCPU);
  kept(store, fused([&] { return run.forward(How::Silu); })).sum().backward();
  EXPECT_EQ(store.counts().fp32_bytes, store.counts().unique_bytes);
}

}  // namespace
}  // namespace triaccel
