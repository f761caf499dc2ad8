#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "triaccel/layers/layer_execution.h"
#include "triaccel/optim/gradient_control.h"

namespace triaccel {
namespace {

/// An FP16 layer whose scale follows its gradients as in training.
struct ScaledLayer {
  explicit ScaledLayer(torch::nn::Linear linear)
      : layer(std::move(linear)),
        control({}, {{"weight", layer->weight, 0}}, 1),
        execution({layer->weight},
                  {.layers = {LayerKernels{.fp16 = {.arithmetic = Arithmetic::Fp32}}}},
                  control.layer_scales(), {}) {
    execution.follow({LayerPlan{.compute = Precision::Fp16}}, 1);
  }

  /// One backward pass; the input's gradient.
  at::Tensor backward(const at::Tensor& input, const at::Tensor& output_gradient) {
    layer->weight.mutable_grad().reset();
    const at::Tensor leaf = input.detach().clone().requires_grad_();
    at::Tensor output;
    {
      const OperatorScope scope(execution);
      output = layer(leaf);
    }
    output.backward(output_gradient.to(output.scalar_type()));
    control.measure();
    scale_used = control.layer_scales()[0][0].item<double>();
    control.finish_step();
    return leaf.grad();
  }

  at::Tensor weight_gradient() const { return layer->weight.grad().to(at::kDouble) / scale_used; }

  torch::nn::Linear layer;
  GradientControl control;
  LayerExecution execution;
  double scale_used = 1;
};

struct ErrorAndZeros {
  double error = 0;
  std::int64_t zeros = 0;
};

/// Against the same gradient in FP32, once the scale has adapted: what FP16 itself costs.
ErrorAndZeros fp16_error_at(double variance) {
  torch::manual_seed(9);
  ScaledLayer test(torch::nn::Linear(torch::nn::LinearOptions(32, 48).bias(false)));
  // Exact in BF16, the carrier, so that no rounding but FP16's is seen.
  const at::Tensor input = at::randn({64, 32}).to(at::kBFloat16).to(at::kFloat);
  const at::Tensor output_gradient =
      (at::randn({64, 48}) * std::sqrt(variance)).to(at::kBFloat16).to(at::kFloat);
  for (int step = 0; step < 3; ++step) test.backward(input, output_gradient);
  const at::Tensor stored = test.weight_gradient();
  const at::Tensor truth = at::mm(output_gradient.t().to(at::kDouble), input.to(at::kDouble));
  return {.error = ((stored - truth).norm() / truth.norm()).item<double>(),
          .zeros = (stored == 0).sum().item<std::int64_t>()};
}

TEST(Fp16Gradients, AreAsGoodWhenTinyAsWhenOrdinary) {
  const ErrorAndZeros ordinary = fp16_error_at(1e-6), tiny = fp16_error_at(1e-14);
  EXPECT_LE(tiny.error, 1.1 * ordinary.error);
  EXPECT_LE(tiny.zeros, ordinary.zeros);
  EXPECT_LT(ordinary.error, 1.0 / 2048);
}

TEST(Fp16Gradients, LowerTheScaleOfALayerWhoseInputGradientOverflows) {
  torch::manual_seed(2);
  torch::nn::Linear layer(torch::nn::LinearOptions(16, 16).bias(false));
  const auto fill = [&](double value) {
    const at::NoGradGuard no_grad;
    layer->weight.fill_(value);
  };
  fill(1);
  ScaledLayer test(layer);
  const at::Tensor input = at::full({8, 16}, 1e-3), output_gradient = at::ones({8, 16});
  for (int step = 0; step < 2; ++step) test.backward(input, output_gradient);
  fill(200);  // from now on the gradient grows 3,200-fold on its way through
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
