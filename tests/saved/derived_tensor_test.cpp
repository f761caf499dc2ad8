#include "triaccel/saved/derived_tensor.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/saved/saved_pass.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

/// Derives what can be derived, and keeps the rest raw.
std::vector<SavedPlan> derived_plans(const std::vector<SavedStatistics>& tensors) {
  std::vector<SavedPlan> plans(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (keeps_values(tensors[i].kind) && tensors[i].derivation != Derivation::None)
      plans[i] = {.codec = SavedCodec::Derived};
  return plans;
}

TEST(DerivedTensor, ComputesDerivedTensorsAgain) {
  for (const char* name : {"resnet18", "efficientnet-b0", "vit-small", "gpt-small"}) {
    const SlimRun run(name);
    const std::vector<at::Tensor> wanted = run.gradients(run.forward());
    SavedStore store({}, run.constants, at::kCPU);
    const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, 2);
    const std::vector<SavedStatistics> tensors = tensors_of(census);
    const std::vector<SavedPlan> plans = derived_plans(tensors);
    store.follow(census, plans_by_entry(census, tensors, plans));
    const at::Tensor logits = kept(store, [&] { return run.forward(); });
    EXPECT_EQ(store.counts().mismatches, 0) << name;
    EXPECT_EQ(store.counts().all_held_bytes(), held_bytes(tensors, plans, 2)) << name;
    EXPECT_LT(static_cast<double>(store.counts().all_held_bytes()),
              0.95 * static_cast<double>(store.counts().unique_bytes))
        << name;
    const std::vector<at::Tensor> gradients = run.gradients(logits);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LT((gradients[i] - wanted[i]).norm().item<double>(),
                1e-4 * wanted[i].norm().item<double>() + 1e-7)
          << name << " " << i;
  }
}

/// Norms, ReLU, SiLU, GELU and products with gates are applied while their coded source is decoded.
TEST(DerivedTensor, DerivesTensorsFromEncodedOnes) {
  for (const char* name :
       {"resnet18", "efficientnet-b0", "densenet121", "vit-small", "gpt-small"}) {
    const SlimRun run(slim(name), 4);
    for (const at::Tensor& parameter :
         run.network.module->parameters())  // else no gradient is left
      if (!parameter.any().item<bool>()) parameter.detach().normal_(0, 0.1);
    const std::int64_t samples = run.input.size(0);
    const std::vector<at::Tensor> wanted = run.gradients(run.forward());
    const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, samples);
    const std::vector<SavedStatistics> tensors = tensors_of(census);
    for (const SavedPlan& coded :
         {SavedPlan{.codec = SavedCodec::Groups, .eighths = 64},
          SavedPlan{
              .codec = SavedCodec::Frequency, .block = 4, .band_eighths = {64, 64, 64, 64, 64}}}) {
      const bool has_maps = run.input.dim() == 4 && std::string(name) != "vit-small";
      if (coded.codec == SavedCodec::Frequency && !has_maps) continue;
      std::vector<SavedPlan> plans = derived_plans(tensors);
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if ((tensors[i].kind == SavedClass::NormInput ||
             tensors[i].kind == SavedClass::Nonlinear) &&
            plans[i].codec == SavedCodec::Raw)
          plans[i] = coded;
      SavedStore store({.seed = 3}, run.constants, at::kCPU);
      store.follow(census, plans_by_entry(census, tensors, plans));
      const at::Tensor logits = kept(store, [&] { return run.forward(); });
      EXPECT_EQ(store.counts().mismatches, 0) << name;
      EXPECT_EQ(store.counts().all_held_bytes(), held_bytes(tensors, plans, samples)) << name;
      EXPECT_GT(store.counts().derived, 5) << name;
      EXPECT_GT(cosine(run.gradients(logits), wanted), 0.998)
          << name << " from " << name_of(coded.codec);
    }
  }
}

TEST(DerivedTensor, LeavesLayerNormsAndGeluToWhoDecodesTheirSource) {
  const at::Tensor x = torch::randn({2, 5, 8}).requires_grad_();
  const at::Tensor weight = torch::randn({8}).requires_grad_();
  const at::Tensor bias = torch::randn({8}).requires_grad_();
  const auto [normed, mean, deviation] = at::native_layer_norm(x, {8}, weight, bias, 1e-5);
  for (const at::Tensor& tensor : {normed, at::gelu(x), at::gelu(x, "tanh")}) {
    CodecMap seen;
    const auto source = std::make_shared<SavedRecord>(
        SavedRecord{.decode = []() -> at::Tensor { throw std::logic_error("decoded apart"); },
                    .decode_rows =
                        [&](const CodecMap& map, at::ScalarType) {
                          seen = map;
                          return tensor.detach();
                        }});
    DerivationSources sources(std::make_shared<DecodedTensor>());
    const std::uint64_t node = tensor.grad_fn()->sequence_nr();
    sources.add(node, source, TensorLayout(x));
    sources.add_statistic(node, mean);
    sources.add_statistic(node, deviation);
    const SavedRecord made = sources.record_of(tensor, nullptr);
    ASSERT_TRUE(made.decode);
    EXPECT_TRUE(torch::equal(made.decode(), tensor.detach()));
    EXPECT_TRUE(seen.is_of_rows());
    EXPECT_EQ(seen.by_rows, tensor.is_same(normed));
    EXPECT_EQ(seen.mean.defined(), seen.by_rows);
  }
}

/// Two convolutions and norms as our own kernels compute them, norms joined with what follows.
struct FusedRun {
  explicit FusedRun(at::ScalarType type = at::kFloat) {
    torch::manual_seed(1);
    input = torch::randn({4, 3, 18, 18}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
    for (const at::Tensor& weight : {first->weight, second->weight})
      weight.set_data(weight.to(type).contiguous(at::MemoryFormat::ChannelsLast));
    for (const auto& module : std::vector<std::shared_ptr<torch::nn::Module>>{
             first.ptr(), norm.ptr(), second.ptr(), last.ptr()})
      for (const at::Tensor& tensor : constants_of(*module)) constants.push_back(tensor);
  }

  at::Tensor forward() {
    LayerExecution execution({}, {}, {}, {.fuse = true, .keep_relu_masks = keep_relu_masks});
    const OperatorScope scope(execution);
    execution.begin_pass();
    at::Tensor y = norm(first(input));
    y = silu ? at::silu(y) : at::relu(y);
    y = at::relu(last(second(y)) + y);
    execution.end_pass();
    return y.mean({2, 3});
  }

  /// Of one parameter alone.
  static at::Tensor gradient_of(const at::Tensor& result, const at::Tensor& parameter) {
    return torch::autograd::grad({result.square().sum()}, {parameter}).front();
  }

  std::vector<at::Tensor> gradients(const at::Tensor& result) {
    std::vector<at::Tensor> all;
    result.square().sum().backward();
    for (const at::Tensor& tensor : constants)
      if (tensor.requires_grad()) {
        all.push_back(tensor.grad().clone());
        tensor.mutable_grad().reset();
      }
    return all;
  }

  torch::nn::Conv2d first{torch::nn::Conv2dOptions(3, 8, 3).bias(false)};
  torch::nn::Conv2d second{torch::nn::Conv2dOptions(8, 8, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm{8}, last{8};
  at::Tensor input;
  std::vector<at::Tensor> constants;
  bool silu = false;
  bool keep_relu_masks = false;
};

TEST(DerivedTensor, KnowsNormsThatAreJoinedWithWhatFollowsThem) {
  FusedRun run;
  for (const bool silu : {false, true}) {
    run.silu = silu;
    const std::vector<at::Tensor> wanted = run.gradients(run.forward());
    const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, 4);
    std::map<std::string, int> readers;
    for (const SavedEntry& entry : census.entries)
      ++readers[entry.consumer + " " + std::string(name_of(entry.kind))];
    EXPECT_EQ(readers["triaccel::NormFusion norm-input"], 2);
    EXPECT_EQ(readers[silu ? "Convolution factor" : "Convolution positive"], silu ? 2 : 1);
    for (const bool derive : {false, true}) {
      SavedStore store({}, run.constants, at::kCPU);
      const std::vector<SavedStatistics> tensors = tensors_of(census);
      const auto plans = derive ? derived_plans(tensors) : lossless_plans(tensors);
      store.follow(census, plans_by_entry(census, tensors, plans));
      const at::Tensor result = kept(store, [&] { return run.forward(); });
      EXPECT_EQ(store.counts().mismatches, 0);
      EXPECT_EQ(store.counts().derived, derive ? 1 : 0);
      const std::vector<at::Tensor> gradients = run.gradients(result);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_TRUE(torch::allclose(gradients[i], wanted[i], derive ? 1e-4 : 0, derive ? 1e-5 : 0))
            << i << " silu " << silu << " derive " << derive;
    }
  }
}

/// A gate opens where it opened, and is kept as it is, whatever codes make of a norm's input.
TEST(DerivedTensor, KeepsTheReluMaskOfAJoinedNormWhoseInputIsCompressed) {
  FusedRun run;
  run.keep_relu_masks = true;
  const at::Tensor wanted = run.gradient_of(run.forward(), run.norm->bias);
  const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, 4);
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  std::vector<SavedPlan> plans = lossless_plans(tensors);
  int gates = 0, coded = 0;
  for (const SavedEntry& entry : census.entries)
    if (entry.consumer == "triaccel::NormFusion" && entry.type == ElementType::U8) {
      EXPECT_EQ(entry.kind, SavedClass::ReluMask);
      ++gates;
    }
  EXPECT_EQ(gates, 2);
  for (std::size_t i = 0; i < tensors.size() && coded == 0; ++i)
    if (tensors[i].kind == SavedClass::NormInput) {
      plans[i] = {.codec = SavedCodec::Groups, .eighths = 8};
      ++coded;
    }
  ASSERT_EQ(coded, 1);
  SavedStore store({}, run.constants, at::kCPU);
  store.follow(census, plans_by_entry(census, tensors, plans));
  const at::Tensor result = kept(store, [&] { return run.forward(); });
  EXPECT_EQ(store.counts().mismatches, 0);
  EXPECT_EQ(store.counts().all_held_bytes(), held_bytes(tensors, plans, 4));
  EXPECT_TRUE(at::equal(run.gradient_of(result, run.norm->bias), wanted));
}

/// A joined norm keeps the bits of its ReLU. What the convolution behind it reads, rebuilt or as
/// non-zeros, needs the same bits and has none of its own.
TEST(DerivedTensor, SharesTheReluMaskOfAJoinedNorm) {
  constexpr SavedPlan eight_bits{.codec = SavedCodec::Groups, .eighths = 64};
  FusedRun run(at::kBFloat16);
  run.keep_relu_masks = true;
  const std::vector<at::Tensor> wanted = run.gradients(run.forward());
  const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, 4);
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  for (const SavedCodec codec : {SavedCodec::Derived, SavedCodec::NonZeros}) {
    std::vector<SavedPlan> plans = lossless_plans(tensors);
    int shared = 0;
    std::int64_t elements = 0, masks = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].kind == SavedClass::NormInput) plans[i] = eight_bits;
      if (tensors[i].kind == SavedClass::ReluMask) masks += tensors[i].raw_bytes(4);
      if (tensors[i].kind != SavedClass::Positive) continue;
      EXPECT_TRUE(tensors[i].mask_elsewhere);
      plans[i] = {.codec = codec, .eighths = 64};
      elements += tensors[i].elements(4);
      ++shared;
    }
    ASSERT_EQ(shared, 1);
    EXPECT_EQ(masks, 2 * mask_bytes(elements)) << "of two ReLUs";
    SavedStore store({}, run.constants, at::kCPU);
    store.follow(census, plans_by_entry(census, tensors, plans));
    const at::Tensor result = kept(store, [&] { return run.forward(); });
    EXPECT_EQ(store.counts().mismatches, 0);
    EXPECT_EQ(store.counts().all_held_bytes(), held_bytes(tensors, plans, 4));
    EXPECT_EQ(store.counts().held_bytes[static_cast<std::size_t>(SavedCodec::Mask)], 0);
    EXPECT_GT(cosine(run.gradients(result), wanted), 0.99);
  }
}

/// In FP32 its bits lie four to a byte, which codecs do not read.
TEST(DerivedTensor, HasAReluMaskOfItsOwnWhereTheNormsLiesOtherwise) {
  FusedRun run;
  run.keep_relu_masks = true;
  const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, 4);
  for (const SavedStatistics& tensor : tensors_of(census)) EXPECT_FALSE(tensor.mask_elsewhere);
}

}  // namespace
}  // namespace triaccel
