#include "triaccel/signals/fisher_gram.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>

#include "tests/signals/probe_case.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

/// Every kind of convolution, some of them followed by operations in place.
struct Convolutions : nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = strided(x).relu_();
    y = torch::tanh(depthwise(grouped(y)));
    y = transposed(y).relu_();
    y = torch::tanh(dilated(y));
    return head(torch::tanh(sequence(y.flatten(2))).flatten(1));
  }
  nn::Conv2d strided =
      register_module("strided", nn::Conv2d(nn::Conv2dOptions(2, 4, 3).stride(2).padding(1)));
  nn::Conv2d grouped =
      register_module("grouped", nn::Conv2d(nn::Conv2dOptions(4, 6, 3).groups(2).padding(1)));
  nn::Conv2d depthwise = register_module(
      "depthwise", nn::Conv2d(nn::Conv2dOptions(6, 6, 3).groups(6).padding(1).bias(false)));
  nn::ConvTranspose2d transposed = register_module(
      "transposed", nn::ConvTranspose2d(
                        nn::ConvTranspose2dOptions(6, 4, 3).stride(2).groups(2).output_padding(1)));
  nn::Conv2d dilated = register_module(
      "dilated", nn::Conv2d(nn::Conv2dOptions(4, 4, {1, 3}).dilation({1, 2}).padding({0, 2})));
  nn::Conv1d sequence =
      register_module("sequence", nn::Conv1d(nn::Conv1dOptions(4, 3, 3).stride(9).padding(1)));
  nn::Linear head = register_module("head", nn::Linear(3 * 16, 5));
};

/// A table that is looked up and multiplied with, a matrix used upright, turned and in parts.
struct Tokens : nn::Module {
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = torch::tanh(torch::linear(table(tokens), shared->weight, shared->bias));
    x = torch::tanh(torch::linear(x, shared->weight.t()));
    x = x + torch::linear(x, packed.narrow(0, 0, 6)) * torch::linear(x, packed.narrow(0, 6, 6));
    x = torch::tanh(torch::linear(x, shared->weight, shared->bias));
    return torch::linear(x, table->weight);
  }
  nn::Embedding table = register_module("table", nn::Embedding(7, 6));
  nn::Linear shared = register_module("shared", nn::Linear(6, 6));
  at::Tensor packed = register_parameter("packed", torch::randn({12, 6}));
};

ProbeCase<Convolutions> convolutions() {
  torch::manual_seed(1);
  return {std::make_shared<Convolutions>(), torch::randn({6, 2, 9, 9}),
          torch::randint(5, {6}, torch::kInt64)};
}

ProbeCase<Tokens> tokens() {
  torch::manual_seed(2);
  return {std::make_shared<Tokens>(), torch::randint(7, {6, 4}, torch::kInt64),
          torch::randint(7, {6, 4}, torch::kInt64)};
}

/// Compares a report with gradients taken one sample at a time.
template <class M>
void expect_matches_explicit(const ProbeCase<M>& each, const CurvatureOptions& options) {
  const CurvatureReport report = each.run(options);
  const std::int64_t samples = each.inputs.size(0);
  ASSERT_EQ(report.layers.size(), each.network.weights.size());
  const at::Tensor logits = each.module->forward(each.inputs);
  for (std::size_t l = 0; l < report.layers.size(); ++l) {
    std::vector<at::Tensor> block = {each.network.weights[l]};
    if (options.whole_layer)
      for (const ParameterRef& parameter : each.network.parameters)
        if (parameter.layer == static_cast<std::int64_t>(l) && parameter.tensor.dim() == 1)
          block.push_back(parameter.tensor);
    std::vector<at::Tensor> rows;
    for (std::int64_t i = 0; i < samples; ++i)
      rows.push_back(gradient_row(each.loss(logits[i], each.targets[i]), block));
    const at::Tensor g = at::stack(rows).to(at::kDouble);
    const at::Tensor fisher = at::linalg_eigvalsh(g.mm(g.t()) / samples).flip(0);
    const std::string where = "layer " + std::to_string(l);
    expect_close(report.layers[l].eigenvalues, fisher.narrow(0, 0, 5), 1e-4, where);
    const at::Tensor mean = g.mean(0);
    const double noise = (g - mean).square().sum().item<double>() / double(samples - 1);
    const double signal = mean.square().sum().item<double>() - noise / double(samples);
    EXPECT_NEAR(report.layers[l].gradient_noise, noise, 1e-4 * noise) << where;
    EXPECT_NEAR(report.layers[l].gradient_signal, signal, 1e-4 * noise) << where;
  }
}

TEST(FisherGram, EqualsTheExplicitFisherOfEveryKindOfConvolution) {
  expect_matches_explicit(convolutions(), {});
}

TEST(FisherGram, EqualsTheExplicitFisherOfTiedSharedAndPackedWeights) {
  expect_matches_explicit(tokens(), {});
}

TEST(FisherGram, GivesTheSameOneSliceAtATime) {
  expect_matches_explicit(convolutions(), {.workspace_bytes = 1, .workspace_per_map = 0});
  expect_matches_explicit(tokens(), {.workspace_bytes = 1, .workspace_per_map = 0});
}

TEST(FisherGram, TakesBiasesIntoTheBlockOnRequest) {
  expect_matches_explicit(convolutions(), {.whole_layer = true});
  expect_matches_explicit(tokens(), {.whole_layer = true});
}

/// Folds what each sample has several of into the batch: samples stay in order.
struct Folded : nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor each = torch::tanh(conv(x.flatten(0, 1))).flatten(1);
    return head(torch::tanh(inner(each)).view({x.size(0), -1}));
  }
  nn::Conv2d conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(1, 2, 3)));
  nn::Linear inner = register_module("inner", nn::Linear(8, 3));
  nn::Linear head = register_module("head", nn::Linear(9, 5));
};

TEST(FisherGram, SeesSamplesThatWereFoldedIntoTheBatch) {
  torch::manual_seed(3);
  const ProbeCase<Folded> folded(std::make_shared<Folded>(), torch::randn({6, 3, 1, 4, 4}),
                                 torch::randint(5, {6}, torch::kInt64));
  expect_matches_explicit(folded, {});
  expect_matches_explicit(folded, {.workspace_bytes = 1, .workspace_per_map = 0});
}

/// Sequences before samples, twice as long as there are samples, with a table of positions.
struct SequenceFirst : nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor places = positions(torch::arange(12));
    const at::Tensor sequences = x.transpose(0, 1) + places.unsqueeze(1);
    return head(torch::tanh(inner(sequences)).mean(0));
  }
  nn::Embedding positions = register_module("positions", nn::Embedding(12, 3));
  nn::Linear inner = register_module("inner", nn::Linear(3, 4));
  nn::Linear head = register_module("head", nn::Linear(4, 5));
};

TEST(FisherGram, TakesNoPositionsForSamples) {
  torch::manual_seed(3);
  const ProbeCase<SequenceFirst> sequences(std::make_shared<SequenceFirst>(),
                                           torch::randn({6, 12, 3}),
                                           torch::randint(5, {6}, torch::kInt64));
  const CurvatureReport report = sequences.run({});
  EXPECT_TRUE(report.layers[0].eigenvalues.empty());
  EXPECT_TRUE(report.layers[1].eigenvalues.empty());
  EXPECT_FALSE(report.layers[2].eigenvalues.empty());
}

/// Long enough a product that its sum is cut into parts.
TEST(FisherGram, AddsUpWideLayersInParts) {
  torch::manual_seed(4);
  auto wide = std::make_shared<nn::LinearImpl>(90, 101);
  const ProbeCase<nn::LinearImpl> case_of_positions(wide, torch::randn({6, 40, 90}),
                                                    torch::randint(101, {6, 40}, torch::kInt64));
  expect_matches_explicit(case_of_positions, {});
}

struct PartlyUnused : nn::Module {
  at::Tensor forward(const at::Tensor& x) { return used(x) + added.slice(0, 0, x.size(0)); }
  nn::Linear used = register_module("used", nn::Linear(3, 4));
  nn::Linear unused = register_module("unused", nn::Linear(3, 4));
  at::Tensor added = register_parameter("added", torch::randn({6, 4}));
};

TEST(FisherGram, LeavesOutWeightsThatNoLayerReads) {
  const ProbeCase<PartlyUnused> partly(std::make_shared<PartlyUnused>(), torch::randn({6, 3}),
                                       torch::randint(4, {6}, torch::kInt64));
  const CurvatureReport report = partly.run({});
  EXPECT_TRUE(report.layers[0].eigenvalues.empty());  // added
  EXPECT_EQ(report.layers[1].eigenvalues.size(), 5u);
  EXPECT_TRUE(report.layers[2].eigenvalues.empty());
}

TEST(FisherGram, DoesNotMeasureAFrozenLayer) {
  const ProbeCase<Convolutions> frozen = convolutions();
  frozen.module->grouped->weight.requires_grad_(false);
  const CurvatureReport report = frozen.run({});
  for (std::size_t l = 0; l < report.layers.size(); ++l)
    EXPECT_EQ(report.layers[l].eigenvalues.empty(), l == 1) << "layer " << l;
}

TEST(FisherGram, DoesNotMeasureWhatIsNotANumber) {
  const ProbeCase<Convolutions> broken = convolutions();
  {
    const torch::NoGradGuard no_grad;
    broken.module->head->weight[0][0] = std::nanf("");
  }
  for (const LayerCurvature& layer : broken.run({}).layers) EXPECT_TRUE(layer.eigenvalues.empty());
}

}  // namespace
}  // namespace triaccel
