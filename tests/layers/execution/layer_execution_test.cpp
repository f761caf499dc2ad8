#include "triaccel/layers/execution/layer_execution.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>

#include "triaccel/device/cpu_memory.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

constexpr double kBf16Unit = 1.0 / 256;   // largest relative rounding error
constexpr double kFp16Unit = 1.0 / 2048;  // likewise, of normal numbers

/// Every kind of layer, and smooth in between: a ReLU whose gate flips by rounding would move the
/// gradients of all layers before it.
struct EveryKindImpl : torch::nn::Module {
  EveryKindImpl() {
    namespace nn = torch::nn;
    wide = register_module("wide", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)));
    norm = register_module("norm", nn::BatchNorm2d(8));
    deep = register_module("deep", nn::Conv2d(nn::Conv2dOptions(8, 8, 3).groups(8).stride(2)));
    point = register_module("point", nn::Conv2d(nn::Conv2dOptions(8, 12, 1)));
    row = register_module("row", nn::Conv1d(nn::Conv1dOptions(12, 6, 3).padding(1)));
    open = register_module("open", nn::Linear(6, 10));
    bare = register_module("bare", nn::Linear(nn::LinearOptions(10, 5).bias(false)));
    last = register_module("last", nn::Linear(5, 4));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = at::tanh(norm(wide(images)));
    x = at::tanh(point(at::tanh(deep(x)))).flatten(2);  // [B, 12, positions]
    x = at::tanh(row(x)).transpose(1, 2);               // [B, positions, 6]
    x = at::tanh(bare(at::tanh(open(x))));              // products of three dimensions
    return last(x.mean(1));
  }
  torch::nn::Conv2d wide{nullptr}, deep{nullptr}, point{nullptr};
  torch::nn::Conv1d row{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear open{nullptr}, bare{nullptr}, last{nullptr};
};
TORCH_MODULE(EveryKind);

std::vector<at::Tensor> weights_of(const Network& network) {
  const auto named = network.module->named_parameters();
  std::vector<at::Tensor> weights;
  for (const LayerInfo& layer : network.layers.layers())
    weights.push_back(named[layer.parameters.front()]);
  return weights;
}

struct Case {
  Case() {
    torch::manual_seed(5);
    network = as_network(EveryKind().ptr(), "every kind");
    images = at::randn({6, 3, 9, 9});
    targets = at::randint(4, {6}, at::kLong);
    scales = make_layer_scales(at::kCPU, network.layers.size());
    plan.resize(static_cast<std::size_t>(network.layers.size()));
  }

  /// Gradients of all parameters in FP32, as autograd gives them or under the plan.
  std::vector<at::Tensor> gradients(bool planned, std::int64_t passes = 1) {
    LayerExecution execution(weights_of(network), {}, scales, {});
    execution.follow(plan, passes);
    for (at::Tensor& parameter : network.module->parameters()) parameter.mutable_grad().reset();
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      at::Tensor logits;
      if (planned) {
        const OperatorScope scope(execution);
        logits = network.forward(images);
      } else {
        logits = network.forward(images);
      }
      output_type = logits.scalar_type();
      (at::cross_entropy_loss(logits.to(at::kFloat), targets) / static_cast<double>(passes))
          .backward();
    }
    std::vector<at::Tensor> all;
    stored_types.clear();
    for (const auto& item : network.module->named_parameters()) {
      at::Tensor gradient = item.value().grad();
      stored_types.push_back(gradient.scalar_type());
      const std::int64_t layer = network.layers.layer_of(item.key());
      if (gradient.scalar_type() == at::kHalf)
        gradient = gradient.to(at::kFloat) / scales[layer][0];
      all.push_back(gradient.to(at::kDouble));
    }
    return all;
  }

  Network network;
  at::Tensor images, targets, scales;
  std::vector<LayerPlan> plan;
  at::ScalarType output_type = at::kFloat;
  std::vector<at::ScalarType> stored_types;
};

double relative_error(const at::Tensor& value, const at::Tensor& truth) {
  return ((value - truth).norm() / truth.norm()).item<double>();
}

void expect_close(Case& test, double bound, const std::string& what) {
  const auto truth = test.gradients(/*planned=*/false);
  const auto planned = test.gradients(/*planned=*/true);
  const auto names = test.network.module->named_parameters().keys();
  for (std::size_t i = 0; i < truth.size(); ++i)
    EXPECT_LT(relative_error(planned[i], truth[i]), bound) << what << ": " << names[i];
}

TEST(LayerExecution, GivesAutogradsGradientsInFp32) {
  Case test;
  expect_close(test, 1e-5, "fp32");
  EXPECT_EQ(test.output_type, at::kFloat);
}

// A gradient passes about ten roundings of the carrier on its way; they add like random numbers.
TEST(LayerExecution, KeepsGradientsWithinTheFormatsOfAPlan) {
  for (const Precision precision : {Precision::Bf16, Precision::Fp16}) {
    Case test;
    for (LayerPlan& layer : test.plan) layer.compute = precision;
    expect_close(test, 4 * kBf16Unit, std::string(name_of(precision)));
    EXPECT_EQ(test.output_type, at::kBFloat16);
  }
}

TEST(LayerExecution, KeepsGradientsWithinTheFormatsOfEveryMixedPlan) {
  constexpr Precision rungs[] = {Precision::Fp16, Precision::Bf16, Precision::Fp32};
  for (std::size_t shift = 0; shift < 3; ++shift) {
    Case test;
    for (std::size_t i = 0; i < test.plan.size(); ++i)
      test.plan[i].compute = rungs[(i + shift) % 3];
    expect_close(test, 4 * kBf16Unit, "mixed " + std::to_string(shift));
  }
}

TEST(LayerExecution, LeavesWeightGradientsInTheLayersType) {
  Case test;
  test.plan[0].compute = Precision::Bf16;
  test.plan[1].compute = Precision::Fp16;
  test.gradients(/*planned=*/true);
  const auto names = test.network.module->named_parameters().keys();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const at::ScalarType expected = names[i] == "wide.weight"   ? at::kBFloat16
                                    : names[i] == "deep.weight" ? at::kHalf
                                                                : at::kFloat;
    EXPECT_EQ(test.stored_types[i], expected) << names[i];
  }
}

TEST(LayerExecution, SumsSeveralPassesInFp32) {
  Case test;
  for (LayerPlan& layer : test.plan) layer.compute = Precision::Fp16;
  test.scales.select(1, 0).fill_(4096);  // a quarter of a gradient is no subnormal number then
  const auto once = test.gradients(/*planned=*/true, 1);
  const auto summed = test.gradients(/*planned=*/true, 4);
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(test.stored_types[i], at::kFloat);
    EXPECT_LT(relative_error(summed[i], once[i]), 2 * kFp16Unit) << i;
  }
}

TEST(LayerExecution, NeverChangesAWeight) {
  Case test;
  for (LayerPlan& layer : test.plan) layer.compute = Precision::Bf16;
  std::vector<at::Tensor> before;
  for (const at::Tensor& parameter : test.network.module->parameters())
    before.push_back(parameter.detach().clone());
  test.gradients(/*planned=*/true);
  const auto after = test.network.module->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i]));
}

TEST(LayerExecution, HalvesWhatIsSavedForBackward) {
  install_cpu_memory();
  const auto saved_bytes = [](Precision precision) {
    torch::manual_seed(1);
    const Network network = make_model({.name = "resnet18", .width = 16});
    LayerExecution execution(weights_of(network), {}, {}, {});
    execution.follow({weights_of(network).size(), LayerPlan{.compute = precision}}, 1);
    const at::Tensor images = at::randn({16, 3, 32, 32});
    const std::int64_t before = read_cpu_memory().used;
    const OperatorScope scope(execution);
    const at::Tensor logits = network.forward(images);
    return static_cast<double>(read_cpu_memory().used - before);
  };
  EXPECT_LT(saved_bytes(Precision::Bf16), 0.62 * saved_bytes(Precision::Fp32));
}

TEST(LayerExecution, StoresGradientsInTheOrderOfTheirWeights) {
  constexpr ConvolutionKernel gemm{.algorithm = ConvolutionAlgorithm::Gemm};
  torch::nn::Conv2d image(torch::nn::Conv2dOptions(4, 8, 3));
  torch::nn::Conv1d row(torch::nn::Conv1dOptions(4, 8, 3));
  LayerExecution execution({image->weight, row->weight},
                           {.layers = {2, LayerKernels{.fp32 = gemm}}}, {}, {});
  {
    const OperatorScope scope(execution);
    (image(at::randn({2, 4, 6, 6})).sum() + row(at::randn({2, 4, 6})).sum()).backward();
  }
  EXPECT_EQ(image->weight.grad().strides(), image->weight.strides());
  EXPECT_EQ(row->weight.grad().strides(), row->weight.strides());
}

TEST(LayerExecution, LeavesOtherViewsOfAWeightToLibtorch) {
  torch::manual_seed(6);
  torch::nn::Linear layer(torch::nn::LinearOptions(5, 5).bias(false));
  const at::Tensor input = at::randn({3, 5});
  const at::Tensor plain = at::linear(input, layer->weight.t());  // as a tied decoder does
  LayerExecution execution({layer->weight}, {}, {}, {});
  const OperatorScope scope(execution);
  EXPECT_TRUE(at::allclose(at::linear(input, layer->weight.t()), plain));
}

TEST(LayerExecution, GivesNoGradientToAWeightThatIsFrozenOrDetached) {
  torch::nn::Linear frozen(torch::nn::LinearOptions(5, 5).bias(false));
  frozen->weight.set_requires_grad(false);
  torch::nn::Linear detached(torch::nn::LinearOptions(5, 5).bias(false));
  LayerExecution execution({frozen->weight, detached->weight}, {}, {}, {});
  const at::Tensor input = at::randn({3, 5}).requires_grad_();
  {
    const OperatorScope scope(execution);
    at::linear(frozen(input), detached->weight.detach()).sum().backward();
  }
  EXPECT_TRUE(input.grad().defined());
  EXPECT_FALSE(frozen->weight.grad().defined());
  EXPECT_FALSE(detached->weight.grad().defined());
}

/// The gradient of a weight that two layers share, or that is also read outside of any layer.
TEST(LayerExecution, AddsTheGradientsOfAWeightThatIsUsedTwice) {
  torch::manual_seed(4);
  torch::nn::Linear layer(torch::nn::LinearOptions(6, 6).bias(false));
  const at::Tensor input = at::randn({5, 6});
  for (const bool through_the_layer : {true, false}) {
    const auto loss = [&] {
      const at::Tensor once = at::tanh(layer(input));
      const at::Tensor again = through_the_layer ? layer(once) : once * layer->weight.sum();
      return again.to(at::kFloat).square().mean();
    };
    layer->weight.mutable_grad().reset();
    loss().backward();
    const at::Tensor truth = layer->weight.grad().to(at::kDouble);
    for (const Precision precision : {Precision::Bf16, Precision::Fp16}) {
      const at::Tensor scales = make_layer_scales(at::kCPU, 1);
      scales[0][0] = 1024;
      LayerExecution execution({layer->weight}, {}, scales, {});
      execution.follow({LayerPlan{.compute = precision}}, 1);
      layer->weight.mutable_grad().reset();
      {
        const OperatorScope scope(execution);
        loss().backward();
      }
      EXPECT_EQ(layer->weight.grad().scalar_type(), at::kFloat);
      EXPECT_LT(relative_error(layer->weight.grad().to(at::kDouble), truth), 4 * kBf16Unit);
    }
  }
}

TEST(LayerExecution, HandsOnWhatAModuleMayChangeInPlace) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(4, 4, 3).padding(1));
  torch::nn::Linear product(4, 4);
  for (const ConvolutionAlgorithm algorithm :
       {ConvolutionAlgorithm::Stock, ConvolutionAlgorithm::Gemm}) {
    LayerExecution execution({layer->weight, product->weight},
                             {.layers = {2, LayerKernels{.fp32 = {.algorithm = algorithm}}}}, {},
                             {});
    const OperatorScope scope(execution);
    EXPECT_NO_THROW(layer(at::randn({2, 4, 5, 5})).relu_().sum().backward());
    EXPECT_NO_THROW(product(at::randn({2, 3, 4})).relu_().sum().backward());
  }
}

TEST(LayerExecution, TrainsATransformerInSixteenBits) {
  torch::manual_seed(2);
  const Network network = make_model({.name = "gpt-small", .width = 64, .context_length = 8});
  const at::Tensor tokens = at::randint(256, {4, 8}, at::kLong);
  const at::Tensor targets = at::randint(256, {4 * 8}, at::kLong);
  const auto loss_of = [&](Precision precision) {
    LayerExecution execution(weights_of(network), {},
                             make_layer_scales(at::kCPU, network.layers.size()), {});
    execution.follow({weights_of(network).size(), LayerPlan{.compute = precision}}, 1);
    const OperatorScope scope(execution);
    const at::Tensor logits = network.forward(tokens).to(at::kFloat);
    return at::cross_entropy_loss(logits.reshape({-1, 256}), targets);
  };
  network.module->eval();  // the same dropout for both: none
  const at::Tensor low = loss_of(Precision::Bf16);
  EXPECT_NEAR(low.item<double>(), loss_of(Precision::Fp32).item<double>(), 0.02);
  low.backward();
  for (const auto& item : network.module->named_parameters())
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
}

}  // namespace
}  // namespace triaccel
