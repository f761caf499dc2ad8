#include "triaccel/kernels/norm/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <tuple>

#include "tests/kernels/common/rounding_oracle.h"

namespace triaccel::kernels {
namespace {

/// A map with all that a layer has, and its exact results in FP64.
struct Layer {
  std::int64_t rows, channels;
  FloatType type;
  Activation activation;
  bool has_residual;
  double eps = 1e-5;
  std::vector<float> input, residual, gradient, weight, bias;
  std::vector<float> factors = {};  // one per sample; empty: none

  std::size_t count() const { return static_cast<std::size_t>(rows * channels); }
  std::size_t width() const { return static_cast<std::size_t>(channels); }
  NormMap map() const { return {rows, channels, type}; }
  bool rectifies() const { return activation == Activation::Relu; }
  SampleFactors factors_in(const std::vector<std::byte>& stored_factors) const {
    if (factors.empty()) return {};
    return {stored_factors.data(), rows / static_cast<std::int64_t>(factors.size())};
  }
  double factor(std::size_t element) const {
    return factors.empty() ? 1.0 : double{factors[element * factors.size() / count()]};
  }
};

std::vector<float> rounded(const std::vector<float>& values, FloatType type) {
  return loaded(stored(values, type).data(), values.size(), type);
}

Layer random_layer(std::int64_t rows, std::int64_t channels, FloatType type, Activation activation,
                   bool has_residual, float mean = 0.5f, float deviation = 2) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Layer layer = {rows, channels, type, activation, has_residual, 1e-5, {}, {}, {}, {}, {}};
  const auto draw = [&](std::size_t count, float center, float width) {
    std::vector<float> values(count);
    for (float& value : values) value = center + width * normal(random);
    return values;
  };
  layer.input = rounded(draw(layer.count(), mean, deviation), type);
  layer.residual = rounded(draw(layer.count(), 0, 1), type);
  layer.gradient = rounded(draw(layer.count(), 0.1f, 1), type);
  layer.weight = draw(layer.width(), 1, 0.5f);
  layer.bias = draw(layer.width(), 0, 0.5f);
  return layer;
}

struct Outcome {
  std::vector<float> output, mean, inverse_deviation, running_mean, running_variance;
  std::vector<float> input_gradient, residual_gradient, weight_gradient, bias_gradient;
  std::vector<std::uint8_t> relu_mask;
};

Outcome forward(const Layer& layer) {
  const std::vector<std::byte> input = stored(layer.input, layer.type),
                               residual = stored(layer.residual, layer.type),
                               factors = stored(layer.factors, layer.type);
  std::vector<std::byte> output(input.size());
  const std::size_t width = layer.width();
  Outcome outcome;
  outcome.mean.resize(width);
  outcome.relu_mask.assign(static_cast<std::size_t>(relu_mask_bytes(layer.map())), 0xa5);
  outcome.inverse_deviation.resize(width);
  outcome.running_mean.assign(width, 3);
  outcome.running_variance.assign(width, 4);
  cpu::batch_norm_train({.map = layer.map(),
                         .output = output.data(),
                         .input = input.data(),
                         .factors = layer.factors_in(factors),
                         .residual = layer.has_residual ? residual.data() : nullptr,
                         .weight = layer.weight.data(),
                         .bias = layer.bias.data(),
                         .activation = layer.activation,
                         .eps = static_cast<float>(layer.eps),
                         .relu_mask = layer.rectifies() ? outcome.relu_mask.data() : nullptr},
                        {.mean = outcome.mean.data(),
                         .inverse_deviation = outcome.inverse_deviation.data(),
                         .running_mean = outcome.running_mean.data(),
                         .running_variance = outcome.running_variance.data(),
                         .momentum = 0.25f});
  outcome.output = loaded(output.data(), layer.count(), layer.type);
  return outcome;
}

/// `masked`: a ReLU opens where the forward pass says, as it must after a residual.
void backward(const Layer& layer, Outcome& outcome, bool masked) {
  const bool needs_mask = layer.has_residual && layer.rectifies();
  const std::vector<std::byte> input = stored(layer.input, layer.type),
                               gradient = stored(layer.gradient, layer.type),
                               factors = stored(layer.factors, layer.type);
  std::vector<std::byte> input_gradient(input.size()), residual_gradient(input.size());
  outcome.weight_gradient.resize(layer.width());
  outcome.bias_gradient.resize(layer.width());
  cpu::batch_norm_backward({.map = layer.map(),
                            .output_gradient = gradient.data(),
                            .input = input.data(),
                            .factors = layer.factors_in(factors),
                            .relu_mask = masked || needs_mask ? outcome.relu_mask.data() : nullptr,
                            .mean = outcome.mean.data(),
                            .inverse_deviation = outcome.inverse_deviation.data(),
                            .weight = layer.weight.data(),
                            .bias = layer.bias.data(),
                            .activation = layer.activation,
                            .input_gradient = input_gradient.data(),
                            .residual_gradient = needs_mask ? residual_gradient.data() : nullptr,
                            .weight_gradient = outcome.weight_gradient.data(),
                            .bias_gradient = outcome.bias_gradient.data()});
  outcome.input_gradient = loaded(input_gradient.data(), layer.count(), layer.type);
  if (needs_mask)
    outcome.residual_gradient = loaded(residual_gradient.data(), layer.count(), layer.type);
}

/// One channel in FP64.
struct ExactChannel {
  double mean = 0, variance = 0;

  ExactChannel(const Layer& layer, std::size_t channel) {
    const auto rows = static_cast<double>(layer.rows);
    for (std::size_t i = channel; i < layer.count(); i += layer.width())
      mean += double{layer.input[i]} / rows;
    for (std::size_t i = channel; i < layer.count(); i += layer.width())
      variance += std::pow(double{layer.input[i]} - mean, 2) / rows;
  }
};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// Half a unit in the last place of the stored type, and what FP32 arithmetic adds.
double allowed(FloatType type, double size) {
  const double rounding = type == FloatType::F32 ? 0 : type == FloatType::Bf16 ? 0x1p-8 : 0x1p-11;
  return (rounding + 4e-6) * size + 4e-6;
}

void expect_exact_forward(const Layer& layer, const Outcome& outcome) {
  for (std::size_t c = 0; c < layer.width(); ++c) {
    const ExactChannel exact(layer, c);
    const double deviation = std::sqrt(exact.variance + layer.eps);
    ASSERT_NEAR(outcome.mean[c], exact.mean, 1e-6 * (std::abs(exact.mean) + deviation));
    ASSERT_NEAR(outcome.inverse_deviation[c] * deviation, 1, 2e-6);
    const double unbiased =
        exact.variance * static_cast<double>(layer.rows) / static_cast<double>(layer.rows - 1);
    ASSERT_NEAR(outcome.running_mean[c], 0.75 * 3 + 0.25 * exact.mean, 1e-5);
    ASSERT_NEAR(outcome.running_variance[c], 0.75 * 4 + 0.25 * unbiased, 1e-5 * (4 + unbiased));
    for (std::size_t i = c; i < layer.count(); i += layer.width()) {
      double value = (double{layer.input[i]} - exact.mean) / deviation * double{layer.weight[c]} +
                     double{layer.bias[c]};
      value *= layer.factor(i);
      if (layer.has_residual) value += double{layer.residual[i]};
      if (layer.activation == Activation::Relu) value = std::max(value, 0.0);
      if (layer.activation == Activation::Silu) value *= sigmoid_of(value);
      ASSERT_NEAR(outcome.output[i], value, allowed(layer.type, std::abs(value)))
          << "channel " << c << " of " << layer.rows << " x " << layer.channels;
    }
  }
}

/// From the saved statistics. A ReLU's mask is taken from the forward pass: a value within rounding
/// of zero may fall on either side of an FP64 one, but backward must open what forward opened.
void expect_exact_backward(const Layer& layer, const Outcome& outcome) {
  for (std::size_t c = 0; c < layer.width(); ++c) {
    const double mean = double{outcome.mean[c]}, inverse = double{outcome.inverse_deviation[c]};
    const double weight = double{layer.weight[c]}, bias = double{layer.bias[c]};
    const auto normal = [&](std::size_t i) { return (double{layer.input[i]} - mean) * inverse; };
    const auto opened = [&](std::size_t i) {
      const double gradient = double{layer.gradient[i]};
      if (layer.activation == Activation::Relu) return outcome.output[i] > 0 ? gradient : 0.0;
      if (layer.activation == Activation::None) return gradient;
      const double value = normal(i) * weight + bias, s = sigmoid_of(value);
      return gradient * s * (1 + value * (1 - s));
    };
    const auto masked = [&](std::size_t i) {
      if (layer.factors.empty()) return opened(i);
      return nearest(opened(i) * layer.factor(i), layer.type);
    };
    double sum = 0, product = 0, sizes = 0;
    for (std::size_t i = c; i < layer.count(); i += layer.width()) {
      sum += masked(i);
      product += masked(i) * normal(i);
      sizes += std::abs(masked(i)) * (1 + std::abs(normal(i)));
    }
    ASSERT_NEAR(outcome.bias_gradient[c], sum, 2e-6 * sizes + 1e-12);
    ASSERT_NEAR(outcome.weight_gradient[c], product, 2e-6 * sizes + 1e-12);
    const auto rows = static_cast<double>(layer.rows);
    for (std::size_t i = c; i < layer.count(); i += layer.width()) {
      const double value = weight * inverse * (masked(i) - sum / rows - normal(i) * product / rows);
      const double size = std::abs(weight) * inverse * (1 + std::abs(masked(i)));
      ASSERT_NEAR(outcome.input_gradient[i], value,
                  allowed(layer.type, std::abs(value)) + 1e-5 * size)
          << "channel " << c << " of " << layer.rows << " x " << layer.channels;
      if (!outcome.residual_gradient.empty()) {
        ASSERT_EQ(double{outcome.residual_gradient[i]}, opened(i));
      }
    }
  }
}

const std::tuple<Activation, bool> kEnds[] = {{Activation::None, false},
                                              {Activation::None, true},
                                              {Activation::Relu, false},
                                              {Activation::Relu, true},
                                              {Activation::Silu, false}};

TEST(BatchNorm, IsExactToTheLastDigitsForEveryTypeEndAndOddSize) {
  for (const FloatType type : kFloatTypes)
    for (const auto& [activation, has_residual] : kEnds)
      for (const std::int64_t rows : {2, 3, 17, 521})
        for (const std::int64_t channels : {1, 3, 7, 8, 24, 65}) {
          const Layer layer = random_layer(rows, channels, type, activation, has_residual);
          Outcome outcome = forward(layer);
          expect_exact_forward(layer, outcome);
          for (const bool masked : {false, layer.rectifies()}) {
            backward(layer, outcome, masked);
            expect_exact_backward(layer, outcome);
          }
          if (HasFatalFailure()) return;
        }
}

TEST(BatchNorm, MultipliesEverySampleWithItsFactor) {
  for (const FloatType type : kFloatTypes)
    for (const auto& [activation, has_residual] : {kEnds[0], kEnds[1], kEnds[2], kEnds[3]})
      for (const auto& [samples, pixels] :
           {std::pair<std::int64_t, std::int64_t>{2, 1}, {1, 7}, {3, 49}, {131, 4}, {7, 300}})
        for (const std::int64_t channels : {1, 7, 8, 65}) {
          Layer layer = random_layer(samples * pixels, channels, type, activation, has_residual);
          for (std::int64_t i = 0; i < samples; ++i)
            layer.factors.push_back(i % 3 == 0 ? 1.25f : i % 3 == 1 ? 0.0f : 0.7f);
          layer.factors = rounded(layer.factors, type);
          Outcome outcome = forward(layer);
          expect_exact_forward(layer, outcome);
          backward(layer, outcome, /*masked=*/layer.rectifies());
          expect_exact_backward(layer, outcome);
          if (HasFatalFailure()) return;
        }
}

/// Eight mask bits of 16-bit channels, four of F32, or one where a row does not divide so.
TEST(BatchNorm, PacksAGateABit) {
  EXPECT_EQ(mask_bits_per_byte({.rows = 3, .channels = 24, .type = FloatType::Bf16}), 8);
  EXPECT_EQ(mask_bits_per_byte({.rows = 3, .channels = 12, .type = FloatType::F32}), 4);
  EXPECT_EQ(mask_bits_per_byte({.rows = 3, .channels = 12, .type = FloatType::F16}), 1);
  EXPECT_EQ(relu_mask_bytes({.rows = 3, .channels = 24, .type = FloatType::Bf16}), 9);
  EXPECT_EQ(relu_mask_bytes({.rows = 3, .channels = 7, .type = FloatType::F32}), 21);
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t channels : {3, 8, 12, 24}) {
      const Layer layer = random_layer(37, channels, type, Activation::Relu, true);
      const Outcome outcome = forward(layer);
      const auto wide = static_cast<std::size_t>(mask_bits_per_byte(layer.map()));
      for (std::size_t i = 0; i < layer.count(); ++i)
        ASSERT_EQ(outcome.relu_mask[i / wide] >> (i % wide) & 1, outcome.output[i] > 0 ? 1 : 0);
      if (wide == 1 || wide == 4) {
        for (const std::uint8_t relu_mask : outcome.relu_mask) ASSERT_LT(relu_mask, 1 << wide);
      }
    }
}

/// What a lossy codec may do to an input changes no mask.
TEST(BatchNorm, OpensTheGatesOfTheForwardPassWhateverTheInputBecame) {
  Layer layer = random_layer(101, 8, FloatType::Bf16, Activation::Relu, false);
  Outcome outcome = forward(layer);
  std::fill(layer.input.begin(), layer.input.end(), -50.0f);
  backward(layer, outcome, /*masked=*/true);
  for (std::size_t c = 0; c < 8; ++c) {
    double sum = 0;
    for (std::size_t i = c; i < layer.count(); i += 8)
      sum += outcome.output[i] > 0 ? double{layer.gradient[i]} : 0;
    EXPECT_NEAR(outcome.bias_gradient[c], sum, 1e-4);
  }
  backward(layer, outcome, /*masked=*/false);
  EXPECT_EQ(outcome.bias_gradient[0], 0) << "all of it lies below zero";
}

TEST(BatchNorm, KeepsItsDigitsUnderALargeMean) {
  const Layer layer = random_layer(20011, 5, FloatType::F32, Activation::None, false, 100, 0.1f);
  Outcome outcome = forward(layer);
  backward(layer, outcome, /*masked=*/false);
  for (std::size_t c = 0; c < 5; ++c) {
    const ExactChannel exact(layer, c);
    EXPECT_NEAR(outcome.mean[c], exact.mean, 1e-5);
    EXPECT_NEAR(outcome.inverse_deviation[c] * std::sqrt(exact.variance + layer.eps), 1, 1e-4);
    double product = 0;
    for (std::size_t i = c; i < layer.count(); i += 5)
      product += double{layer.gradient[i]} * (double{layer.input[i]} - exact.mean) /
                 std::sqrt(exact.variance + layer.eps);
    EXPECT_NEAR(outcome.weight_gradient[c], product, 0.5);  // of a sum of 20011 numbers near one
  }
}

TEST(BatchNorm, IsNotMisledByAFirstValueFarOut) {
  Layer layer = random_layer(50021, 3, FloatType::F32, Activation::None, false, 100, 0.1f);
  layer.input[0] = 0;
  const Outcome outcome = forward(layer);
  const ExactChannel exact(layer, 0);
  EXPECT_NEAR(outcome.inverse_deviation[0] * std::sqrt(exact.variance + layer.eps), 1, 1e-3);
}

TEST(BatchNorm, GivesTheBiasWhereAChannelIsConstant) {
  Layer layer = random_layer(300, 4, FloatType::Bf16, Activation::None, false);
  std::fill(layer.input.begin(), layer.input.end(), 7.0f);
  const Outcome outcome = forward(layer);
  for (std::size_t i = 0; i < layer.count(); ++i)
    ASSERT_EQ(double{outcome.output[i]}, nearest(double{layer.bias[i % 4]}, FloatType::Bf16));
}

TEST(BatchNorm, TakesMissingParametersAndUnwantedResults) {
  const Layer layer = random_layer(40, 6, FloatType::F32, Activation::Relu, false);
  std::vector<float> output(layer.count()), mean(6), inverse(6), bare(layer.count());
  NormForward params = {.map = layer.map(), .output = output.data(), .input = layer.input.data()};
  cpu::batch_norm_train(params, {.mean = mean.data(), .inverse_deviation = inverse.data()});
  for (std::size_t i = 0; i < layer.count(); ++i)
    ASSERT_FLOAT_EQ(output[i], (layer.input[i] - mean[i % 6]) * inverse[i % 6]);
  std::vector<float> bias_gradient(6);
  cpu::batch_norm_backward({.map = layer.map(),
                            .output_gradient = layer.gradient.data(),
                            .input = layer.input.data(),
                            .mean = mean.data(),
                            .inverse_deviation = inverse.data(),
                            .bias_gradient = bias_gradient.data()});
  double sum = 0;
  for (std::size_t i = 0; i < layer.count(); i += 6) sum += double{layer.gradient[i]};
  EXPECT_NEAR(bias_gradient[0], sum, 1e-4);
}

TEST(BatchNorm, InfersFromTheRunningStatistics) {
  for (const auto& [activation, has_residual] : kEnds) {
    const Layer layer = random_layer(100, 9, FloatType::F32, activation, has_residual);
    std::vector<float> output(layer.count()), mean(9, 0.25f), variance(9, 4.0f);
    cpu::batch_norm_infer({.map = layer.map(),
                           .output = output.data(),
                           .input = layer.input.data(),
                           .residual = has_residual ? layer.residual.data() : nullptr,
                           .weight = layer.weight.data(),
                           .bias = layer.bias.data(),
                           .activation = activation,
                           .eps = 1e-5f},
                          {mean.data(), variance.data()});
    for (std::size_t i = 0; i < layer.count(); ++i) {
      double value =
          (double{layer.input[i]} - 0.25) / std::sqrt(4 + 1e-5) * double{layer.weight[i % 9]} +
          double{layer.bias[i % 9]} + (has_residual ? double{layer.residual[i]} : 0);
      if (activation == Activation::Relu) value = std::max(value, 0.0);
      if (activation == Activation::Silu) value *= sigmoid_of(value);
      ASSERT_NEAR(output[i], value, 4e-6 * (1 + std::abs(value)));
    }
  }
}

TEST(BatchNorm, PassesANanOnAndSaturatesSilu) {
  Layer layer = random_layer(4, 1, FloatType::F32, Activation::Silu, false);
  std::vector<float> output(4), mean(1, 0.0f), variance(1, 1.0f);
  layer.input = {std::nanf(""), 200, -200, -90};
  for (const Activation activation : {Activation::Relu, Activation::Silu}) {
    cpu::batch_norm_infer({.map = layer.map(),
                           .output = output.data(),
                           .input = layer.input.data(),
                           .activation = activation,
                           .eps = 0},
                          {mean.data(), variance.data()});
    EXPECT_TRUE(std::isnan(output[0]));
    EXPECT_FLOAT_EQ(output[1], 200);
    EXPECT_NEAR(output[2], 0, 1e-30);
    EXPECT_NEAR(output[3], 0, 1e-30);
  }
}

}  // namespace
}  // namespace triaccel::kernels
