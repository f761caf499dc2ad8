#include "triaccel/saved/error_gains.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/saved/saved_pass.h"
#include "triaccel/saved/saved_measurement.h"

namespace triaccel {
namespace {

at::Tensor no_weight(const torch::autograd::Node&) { return {}; }

std::vector<ErrorGain> gains_of(const Forward& forward, const std::vector<at::Tensor>& constants,
                                const SavedCensus& census) {
  ErrorGains gains(census, constants, no_weight);
  at::Tensor result;
  {
    const SavedTensorScope scope(gains);
    result = forward();
  }
  gains.watch(result);
  result.square().sum().backward();
  return gains.read();
}

// By the definition: errors are put on the saved input of a product whose output's gradient stays.
TEST(ErrorGains, FoundAreWhatErrorsAddToTheGradient) {
  torch::manual_seed(5);
  const at::Tensor image = torch::randn({4, 3, 12, 12});
  const at::Tensor row = torch::randn({6, 40}).requires_grad_();  // else the weight is not saved
  const at::Tensor kernel = torch::randn({5, 3, 3, 3}).requires_grad_();
  const at::Tensor matrix = torch::randn({7, 40}).requires_grad_();
  const auto check = [](const at::Tensor& input, const at::Tensor& weight, const auto& product) {
    const Forward forward = [&] { return product(input.tanh()); };
    SavedCensus census = census_of(forward, {weight}, input.size(0));
    for (SavedEntry& entry : census.entries)  // one vector a sample is not worth a code, but here
      if (entry.kind == SavedClass::Vector) entry.kind = SavedClass::Factor;
    const std::vector<ErrorGain> gains = gains_of(forward, {weight}, census);
    ASSERT_EQ(gains.size(), 1u);
    const at::Tensor exact = weight.grad().clone();
    EXPECT_NEAR(gains[0].weight_gradient_square, exact.square().sum().item<double>(),
                1e-5 * gains[0].weight_gradient_square);
    const at::Tensor arriving = 2 * forward().detach();
    double added = 0;
    constexpr int kDraws = 200;
    for (int i = 0; i < kDraws; ++i) {
      weight.mutable_grad().reset();
      product(input.tanh() + torch::randn_like(input)).backward(arriving);
      added += (weight.grad() - exact).square().sum().template item<double>() / kDraws;
    }
    EXPECT_NEAR(gains[0].gain / added, 1, 0.1);
  };
  check(image, kernel, [&](const at::Tensor& x) { return torch::conv2d(x, kernel, {}, 2); });
  check(row, matrix, [&](const at::Tensor& x) { return torch::linear(x, matrix); });
}

TEST(MeasureGains, TakesTheWeightThatATensorDoesMostTo) {
  const at::Tensor x = torch::randn({2, 4, 8, 8});
  const at::Tensor a = torch::randn({4, 4, 1, 1}).requires_grad_();
  const at::Tensor b = torch::randn({4, 4, 3, 3}).requires_grad_();
  const SavedCensus census = census_of(
      [&] {
        const at::Tensor y = x.tanh();
        return torch::conv2d(y, a) + torch::conv2d(y, b, {}, 1, 1);
      },
      {a, b}, 2);
  std::vector<SavedStatistics> tensors = tensors_of(census);
  std::vector<ErrorGain> gains;
  for (std::size_t i = 0; i < census.entries.size(); ++i)
    if (census.entries[i].kind == SavedClass::Factor)
      gains.push_back({.entry = static_cast<std::int64_t>(i),
                       .weight_gradient_square = 2,
                       .gain = gains.empty() ? 5.0 : 3.0});
  ASSERT_EQ(gains.size(), 2u);
  measure_gains(tensors, census, gains);
  EXPECT_EQ(tensors[0].error_gain, 5);
  EXPECT_EQ(tensors[0].weight_gradient_square, 2);
}

}  // namespace
}  // namespace triaccel
