#include "triaccel/saved/saved_profile.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "tests/saved/saved_pass.h"

namespace triaccel {
namespace {

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

/// Share of the unique bytes by the operators that read a tensor, "NativeBatchNorm" or
/// "Relu+Convolution".
std::map<std::string, double> shares_of(const SavedCensus& census) {
  std::vector<std::string> readers(census.entries.size());
  for (const SavedEntry& entry : census.entries) {
    if (entry.kind == SavedClass::Constant) continue;
    std::string& all = readers[static_cast<std::size_t>(entry.same_as)];
    all += (all.empty() ? "" : "+") + entry.consumer;
  }
  std::map<std::string, double> shares;
  for (std::size_t i = 0; i < readers.size(); ++i)
    if (!readers[i].empty())
      shares[readers[i]] += ratio(census.entries[i].bytes, census.unique_bytes());
  return shares;
}

SavedCensus census_of_model(const ModelOptions& options) {
  const Network network = make_model(options);
  const at::Tensor input = sample_input(options);
  return census_of([&] { return network.forward(input); }, constants_of(*network.module),
                   input.size(0));
}

TEST(SavedProfile, FindsTheReaderOfEveryTensorOfEveryModel) {
  for (const std::string& name : model_names()) {
    const SlimRun run(name);
    const SavedCensus census =
        census_of([&] { return run.forward(); }, run.constants, run.input.size(0));
    EXPECT_GT(census.entries.size(), 10u) << name;
    for (std::size_t i = 0; i < census.entries.size(); ++i)
      EXPECT_NE(census.entries[i].consumer, "") << name << " " << i;
  }
}

TEST(SavedProfile, CountsTheBytesOfResNet18AsTheyWereMeasured) {
  const SavedCensus census = census_of_model({.name = "resnet18", .stem = "cifar"});
  EXPECT_NEAR(static_cast<double>(census.unique_bytes()) / 2e6, 4.72, 0.01);  // MB an image
  EXPECT_NEAR(ratio(census.passed_bytes(), census.unique_bytes()), 7.43 / 4.74, 0.01);
  const auto shares = shares_of(census);
  EXPECT_NEAR(shares.at("NativeBatchNorm"), 0.527, 0.005);
  EXPECT_NEAR(shares.at("Relu+Convolution"), 0.367, 0.005);
  EXPECT_NEAR(shares.at("Relu+Convolution+Convolution"), 0.097, 0.005);
}

TEST(SavedProfile, CountsTheBytesOfResNet50AsTheyWereMeasured) {
  const SavedCensus census = census_of_model({.name = "resnet50", .image_size = 64});
  EXPECT_NEAR(ratio(census.passed_bytes(), census.unique_bytes()), 131.0 / 86.1, 0.02);
  const auto shares = shares_of(census);
  EXPECT_NEAR(shares.at("NativeBatchNorm"), 0.519, 0.01);
  EXPECT_NEAR(shares.at("Relu+Convolution"), 0.339, 0.01);
  EXPECT_NEAR(shares.at("Relu+MaxPool2DWithIndices"), 0.037, 0.005);
}

TEST(SavedProfile, CountsTheBytesOfEfficientNetAsTheyWereMeasured) {
  const auto shares = shares_of(census_of_model({.name = "efficientnet-b0", .image_size = 64}));
  EXPECT_NEAR(shares.at("Convolution"), 0.309, 0.01);
  EXPECT_NEAR(shares.at("NativeBatchNorm"), 0.306, 0.01);
  EXPECT_NEAR(shares.at("Silu"), 0.278, 0.01);
}

TEST(SavedProfile, SeesOneTensorInViewsOfTheSameMemory) {
  const at::Tensor x = torch::randn({2, 3, 4}), w = torch::randn({4, 5}).requires_grad_();
  const SavedCensus census = census_of(
      [&] {
        return (x.view({6, 4}).mm(w) + x.transpose(1, 2).transpose(1, 2).matmul(w).view({6, 5}));
      },
      {w}, 2);
  std::int64_t first = -1;
  for (std::size_t i = 0; i < census.entries.size(); ++i)
    if (census.entries[i].kind != SavedClass::Constant) {
      if (first < 0) first = static_cast<std::int64_t>(i);
      EXPECT_EQ(census.entries[i].same_as, first);
    }
  EXPECT_EQ(census.unique_bytes(), 2 * 3 * 4 * 4);
}

TEST(SavedProfile, LeavesOutParametersAndTheirCasts) {
  const at::Tensor x = torch::randn({4, 3}).to(torch::kBFloat16);
  const at::Tensor w = torch::randn({5, 3}).requires_grad_();
  const SavedCensus census = census_of([&] { return x.mm(w.to(torch::kBFloat16).t()); }, {w}, 4);
  EXPECT_EQ(census.unique_bytes(), 4 * 3 * 2);
}

TEST(SavedProfile, TellsWhatATensorCanBeComputedFrom) {
  const SlimRun run("efficientnet-b0");
  const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, 2);
  std::map<Derivation, int> found;
  for (const SavedEntry& entry : census.entries) {
    ++found[entry.derivation];
    if (entry.derivation == Derivation::None) continue;
    const SavedEntry& source = census.entries[static_cast<std::size_t>(entry.source)];
    EXPECT_TRUE(source.consumer == "NativeBatchNorm" || source.consumer == "Silu")
        << entry.consumer << " " << entry.producer;
    EXPECT_EQ(source.bytes, entry.bytes);
  }
  EXPECT_GE(found[Derivation::Affine], 33);  // inputs of SiLU
  EXPECT_GE(found[Derivation::Smooth], 30);  // their outputs
}

TEST(SavedClasses, TellsWhatAnAttentionReadsFromItsStatistics) {
  const auto read_by = [](std::vector<std::int64_t> sizes) {
    return saved_class({.consumer = "ScaledDotProductCudnnAttention", .sizes = std::move(sizes)});
  };
  EXPECT_EQ(read_by({1, 6, 257, 64}), SavedClass::Attention);
  EXPECT_EQ(read_by({1, 6, 257}), SavedClass::Statistics);
  EXPECT_EQ(read_by({1, 6, 257, 1}), SavedClass::Statistics) << "a logarithm per row, by cuDNN";
}

TEST(SavedClasses, LeavesWhatItDoesNotKnowAlone) {
  EXPECT_EQ(saved_class({.consumer = "Erfinv", .sizes = {1, 64, 8, 8}}), SavedClass::Other);
  EXPECT_EQ(saved_class({.consumer = "Embedding", .type = ElementType::I64, .sizes = {1, 8}}),
            SavedClass::Other);
  EXPECT_EQ(
      saved_class({.consumer = "Convolution", .type = ElementType::F64, .sizes = {1, 8, 8, 8}}),
      SavedClass::Other);
}

TEST(SavedClasses, FollowsARectifiedTensorThroughPoolsAndViews) {
  EXPECT_TRUE(is_rectified("Relu < Convolution"));
  EXPECT_TRUE(is_rectified("View < MaxPool2DWithIndices < Relu"));
  EXPECT_FALSE(is_rectified("Add < Relu"));
  EXPECT_FALSE(is_rectified("View"));
  EXPECT_FALSE(is_rectified(""));
}

}  // namespace
}  // namespace triaccel
