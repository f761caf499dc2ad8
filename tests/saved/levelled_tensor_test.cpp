#include <gtest/gtest.h>

#include "tests/saved/saved_pass.h"
#include "triaccel/policies/memory/held_bytes.h"

namespace triaccel {
namespace {

/// A batch norm of maps of one pixel whose channels vary by a factor of 1,000.
struct UnevenNorm {
  UnevenNorm() {
    torch::manual_seed(1);
    const at::Tensor scales = torch::pow(10.0, torch::linspace(-3, 0, kChannels));
    input = (torch::randn({kSamples, kChannels}) * scales).view({kSamples, kChannels, 1, 1});
    input.requires_grad_();
    flow = torch::randn_like(input);
  }

  at::Tensor forward() { return norm(input); }
  at::Tensor gradient(const at::Tensor& output) {
    input.mutable_grad().reset();
    output.backward(flow);
    return input.grad().clone();
  }

  static constexpr std::int64_t kSamples = 96, kChannels = 64;
  torch::nn::BatchNorm2d norm{kChannels};
  at::Tensor input, flow;
};

TEST(LevelledTensors, KeepTheGradientsOfChannelsThatHardlyVary) {
  UnevenNorm uneven;
  const at::Tensor exact = uneven.gradient(uneven.forward());
  const auto worst_channel = [&](SavedCodec codec) {
    const SavedPlan plan{.codec = codec, .eighths = 32};
    const auto forward = [&] { return uneven.forward(); };
    const auto store = store_for(forward, constants_of(*uneven.norm), plan, UnevenNorm::kSamples);
    const at::Tensor coded = uneven.gradient(kept(*store, forward));
    EXPECT_EQ(store->counts().mismatches, 0);
    const SavedStatistics tensor{.kind = SavedClass::NormInput,
                                 .sizes = {1, UnevenNorm::kChannels, 1, 1}};
    EXPECT_EQ(store->counts().held_bytes[static_cast<std::size_t>(codec)],
              HeldBytes(tensor, UnevenNorm::kSamples).under(plan));
    const auto by_channel = [](const at::Tensor& map) {
      return map.square().sum({0, 2, 3}).sqrt();
    };
    return (by_channel(coded - exact) / by_channel(exact)).amax().item<double>();
  };
  const double levelled = worst_channel(SavedCodec::Levelled);
  EXPECT_LT(levelled, 0.2);
  EXPECT_GT(worst_channel(SavedCodec::Groups), 100 * levelled);
}

TEST(LevelledTensors, AreDecodedWithTheNormBehindThem) {
  torch::manual_seed(2);
  torch::nn::Sequential network(torch::nn::BatchNorm2d(32), torch::nn::ReLU(),
                                torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 8, 1)));
  const at::Tensor input = torch::randn({48, 32, 2, 2}).requires_grad_();
  const auto forward = [&] { return network->forward(input); };
  const SavedCensus census = census_of(forward, constants_of(*network), 48);
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  std::vector<SavedPlan> plans = lossless_plans(tensors);
  int derived = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].kind == SavedClass::NormInput)
      plans[i] = {.codec = SavedCodec::Levelled, .eighths = 64};
    if (tensors[i].derivation == Derivation::Rectified && ++derived > 0)
      plans[i] = {.codec = SavedCodec::Derived};
  }
  ASSERT_EQ(derived, 1);
  SavedStore store({.seed = 5}, constants_of(*network), at::kCPU);
  store.follow(census, plans_by_entry(census, tensors, plans));
  const auto gradients = [&](const at::Tensor& output) {
    network->zero_grad();
    input.mutable_grad().reset();
    output.square().mean().backward();
    std::vector<at::Tensor> all = {input.grad().clone()};
    for (const at::Tensor& parameter : network->parameters())
      all.push_back(parameter.grad().clone());
    return all;
  };
  const auto exact = gradients(forward()), coded = gradients(kept(store, forward));
  EXPECT_EQ(store.counts().derived, 1);
  EXPECT_GT(cosine(exact, coded), 0.9999);
}

/// Tokens before a layer norm, one of which hardly varies, as a class token at the start of
/// training.
struct UnevenTokens {
  explicit UnevenTokens(at::ScalarType type) {
    torch::manual_seed(3);
    tokens = torch::randn({kSamples, 17, kColumns});
    tokens.select(1, 0).mul_(0.01);
    tokens = tokens.to(type).requires_grad_();
    weight = torch::randn({kColumns}).requires_grad_();
    bias = torch::randn({kColumns}).requires_grad_();
    product = torch::randn({8, kColumns}).to(type).requires_grad_();
  }

  at::Tensor forward() const {
    const at::ScalarType type = tokens.scalar_type();
    return torch::linear(
        torch::layer_norm(tokens, {kColumns}, weight.to(type), bias.to(type), 1e-6), product);
  }
  std::vector<at::Tensor> constants() const { return {weight, bias, product}; }
  /// Of the tokens, and of the matrix behind the norm.
  std::vector<at::Tensor> gradients(const at::Tensor& output) {
    for (at::Tensor each : {tokens, weight, bias, product}) each.mutable_grad().reset();
    torch::manual_seed(4);
    output.backward(torch::randn_like(output));
    return {tokens.grad().to(at::kFloat), product.grad().to(at::kFloat)};
  }

  static constexpr std::int64_t kSamples = 12, kColumns = 96;
  at::Tensor tokens, weight, bias, product;
};

TEST(LevelledTensors, KeepTheGradientsOfTokensThatHardlyVary) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    UnevenTokens uneven(type);
    const auto forward = [&] { return uneven.forward(); };
    const auto exact = uneven.gradients(forward());
    const SavedCensus census = census_of(forward, uneven.constants(), UnevenTokens::kSamples);
    const std::vector<SavedStatistics> tensors = tensors_of(census);
    const auto worst_token = [&](SavedCodec codec) {
      std::vector<SavedPlan> plans = lossless_plans(tensors);
      int norms = 0, derived = 0;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].by_rows && ++norms > 0) plans[i] = {.codec = codec, .eighths = 32};
        if (tensors[i].derivation == Derivation::Affine && ++derived > 0)
          plans[i] = {.codec = SavedCodec::Derived};
      }
      EXPECT_EQ(norms, 1);
      EXPECT_EQ(derived, 1);
      SavedStore store({.seed = 5}, uneven.constants(), at::kCPU);
      store.follow(census, plans_by_entry(census, tensors, plans));
      const auto coded = uneven.gradients(kept(store, forward));
      EXPECT_EQ(store.counts().mismatches, 0);
      EXPECT_EQ(store.counts().derived, 1);
      const SavedStatistics norm{
          .kind = SavedClass::NormInput, .sizes = {1, 17, UnevenTokens::kColumns}, .by_rows = true};
      EXPECT_EQ(store.counts().held_bytes[static_cast<std::size_t>(codec)],
                HeldBytes(norm, UnevenTokens::kSamples).under({.codec = codec, .eighths = 32}));
      if (codec == SavedCodec::LevelledRows) {
        EXPECT_GT(cosine({exact[1]}, {coded[1]}), 0.99);
      }
      const auto by_token = [](const at::Tensor& map) { return map.square().sum(2).sqrt(); };
      return (by_token(coded[0] - exact[0]) / by_token(exact[0])).amax().item<double>();
    };
    const double levelled = worst_token(SavedCodec::LevelledRows);
    EXPECT_LT(levelled, 0.2) << type;
    EXPECT_GT(worst_token(SavedCodec::Groups), 20 * levelled) << type;
  }
}

// As maps that a network permutes before each layer norm.
TEST(LevelledTensors, KeepRowsThatDoNotLieOneAfterAnotherInGroups) {
  torch::manual_seed(5);
  const at::Tensor maps = torch::randn({6, 32, 5, 5}).requires_grad_();
  const at::Tensor weight = torch::randn({32}).requires_grad_(),
                   bias = torch::randn({32}).requires_grad_();
  const auto forward = [&] {
    return torch::layer_norm(maps.permute({0, 2, 3, 1}), {32}, weight, bias);
  };
  const auto gradient = [&](const at::Tensor& output) {
    at::Tensor(maps).mutable_grad().reset();
    output.square().sum().backward();
    return maps.grad().clone();
  };
  const at::Tensor exact = gradient(forward());
  const SavedPlan rows{.codec = SavedCodec::LevelledRows, .eighths = 48};
  const auto store = store_for(forward, {weight, bias}, rows, 6);
  const at::Tensor coded = gradient(kept(*store, forward));
  EXPECT_EQ(store->counts().mismatches, 0);
  EXPECT_GT(cosine({exact}, {coded}), 0.999);
}

}  // namespace
}  // namespace triaccel
