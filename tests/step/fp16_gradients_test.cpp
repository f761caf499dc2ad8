#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/optim/gradient_control.h"

namespace triaccel {
namespace {

/// What a layer computes from its input and its weight.
using Layer = at::Tensor (*)(const at::Tensor& input, const at::Tensor& weight);

at::Tensor product(const at::Tensor& input, const at::Tensor& weight) {
  return at::linear(input, weight);
}
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight) {
  return at::conv2d(input, weight, {}, /*stride=*/2, /*padding=*/1);
}
at::Tensor depthwise(const at::Tensor& input, const at::Tensor& weight) {
  return at::conv2d(input, weight, {}, /*stride=*/1, /*padding=*/1, /*dilation=*/1, input.size(1));
}

/// An FP16 layer whose scale follows its gradients as in training.
struct ScaledLayer {
  ScaledLayer(Layer computed, at::Tensor values)
      : layer(computed),
        weight(values.requires_grad_()),
        control({}, {{"weight", weight, 0}}, 1),
        execution({weight}, {.layers = {LayerKernels{.fp16 = {.arithmetic = Arithmetic::Fp32}}}},
                  control.layer_scales(), {}) {
    execution.follow({LayerPlan{.compute = Precision::Fp16}}, 1);
  }

  /// One backward pass; the input's gradient.
  at::Tensor backward(const at::Tensor& input, const at::Tensor& output_gradient) {
    weight.mutable_grad().reset();
    const at::Tensor leaf = input.detach().clone().requires_grad_();
    at::Tensor output;
    {
      const OperatorScope scope(execution);
      output = layer(leaf, weight);
    }
    output.backward(output_gradient.to(output.scalar_type()));
    control.measure();
    scale_used = control.layer_scales()[0][0].item<double>();
    control.finish_step();
    return leaf.grad();
  }

  at::Tensor weight_gradient() const { return weight.grad().to(at::kDouble) / scale_used; }

  Layer layer;
  at::Tensor weight;
  GradientControl control;
  LayerExecution execution;
  double scale_used = 1;
};

struct LayerCase {
  std::string name;
  Layer layer;
  std::vector<std::int64_t> input, weight;
};

const std::vector<LayerCase> kLayerCases = {
    {"linear", product, {64, 32}, {48, 32}},
    {"convolution", convolution, {8, 6, 9, 9}, {10, 6, 3, 3}},
    {"depthwise", depthwise, {8, 12, 7, 7}, {12, 1, 3, 3}}};

struct ErrorAndZeros {
  double error = 0;
  std::int64_t zeros = 0;
};

/// Exact in BF16, the carrier, so that no rounding but FP16's is seen.
at::Tensor carried(const at::Tensor& values) { return values.to(at::kBFloat16).to(at::kFloat); }

/// Against the same gradient in FP64, once the scale has adapted: what FP16 itself costs.
ErrorAndZeros fp16_error_at(double variance, const LayerCase& each) {
  torch::manual_seed(9);
  const at::Tensor input = carried(at::randn(each.input));
  ScaledLayer test(each.layer, at::randn(each.weight) * 0.1);
  const at::Tensor exact_weight = test.weight.detach().to(at::kDouble).clone().requires_grad_();
  const at::Tensor exact = each.layer(input.to(at::kDouble), exact_weight);
  const at::Tensor output_gradient = carried(at::randn(exact.sizes()) * std::sqrt(variance));
  exact.backward(output_gradient.to(at::kDouble));
  const at::Tensor truth = exact_weight.grad();
  for (int step = 0; step < 3; ++step) test.backward(input, output_gradient);
  const at::Tensor stored = test.weight_gradient();
  return {.error = ((stored - truth).norm() / truth.norm()).item<double>(),
          .zeros = (stored == 0).sum().item<std::int64_t>()};
}

TEST(Fp16Gradients, AreAsGoodWhenTinyAsWhenOrdinaryInEveryKindOfLayer) {
  for (const LayerCase& each : kLayerCases) {
    const ErrorAndZeros ordinary = fp16_error_at(1e-6, each), tiny = fp16_error_at(1e-14, each);
    EXPECT_LE(tiny.error, 1.1 * ordinary.error) << each.name;
    EXPECT_LE(tiny.zeros, ordinary.zeros) << each.name;
    EXPECT_LT(ordinary.error, 1.0 / 2048) << each.name;
  }
}

TEST(Fp16Gradients, LowerTheScaleOfALayerWhoseInputGradientOverflows) {
  ScaledLayer test(product, at::ones({16, 16}));
  const at::Tensor input = at::full({8, 16}, 1e-3), output_gradient = at::ones({8, 16});
  for (int step = 0; step < 2; ++step) test.backward(input, output_gradient);
  test.weight.detach().fill_(200);  // the gradient grows 3,200-fold on its way through
  bool overflowed = false;
  at::Tensor last;
  for (int step = 0; step < 6; ++step) {
    last = test.backward(input, output_gradient);
    overflowed = overflowed || !at::isfinite(last).all().item<bool>();
  }
  EXPECT_TRUE(overflowed) << "the case must put the scale to the test";
  EXPECT_TRUE(at::isfinite(last).all().item<bool>());
  EXPECT_NEAR(last.mean().item<double>(), 3200, 32);
}

}  // namespace
}  // namespace triaccel
