#include "triaccel/ops/norm/batch_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/even_pixels.h"

namespace triaccel {
namespace {

using Sizes = std::vector<std::int64_t>;

at::Tensor image(at::ScalarType type = at::kFloat) {
  return at::randn({4, 10, 5, 3}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
}

NormParameters random_parameters() {
  return {.weight = at::rand({10}) + 0.5,
          .bias = at::randn({10}),
          .running_mean = at::randn({10}),
          .running_variance = at::rand({10}) + 0.5};
}

NormStatistics empty_statistics() { return {at::empty({10}), at::empty({10})}; }

NormParameters copy_of(const NormParameters& how) {
  return {how.weight,   how.bias, how.running_mean.clone(), how.running_variance.clone(),
          how.momentum, how.eps};
}

at::Tensor torch_result(const at::Tensor& input, const NormParameters& how,
                        const at::Tensor& residual, Activation activation, bool training) {
  at::Tensor output = at::batch_norm(input, how.weight, how.bias, how.running_mean,
                                     how.running_variance, training, how.momentum, how.eps, false);
  if (residual.defined()) output = output + residual;
  if (activation == Activation::Relu) output = at::relu(output);
  if (activation == Activation::Silu) output = at::silu(output);
  return output;
}

struct End {
  Activation activation;
  bool has_residual;
};
constexpr End kEnds[] = {{Activation::None, false},
                         {Activation::None, true},
                         {Activation::Relu, false},
                         {Activation::Relu, true},
                         {Activation::Silu, false}};

at::Tensor gates_for(const at::Tensor& input, Activation activation) {
  return activation == Activation::Relu ? empty_relu_mask(input) : at::Tensor();
}

TEST(BatchNormOp, EqualsTorchInForwardBackwardAndRunningStatistics) {
  for (const auto& [activation, has_residual] : kEnds) {
    at::manual_seed(3);
    const at::Tensor input = image().requires_grad_(), gradient = at::randn({4, 10, 5, 3});
    const at::Tensor residual = has_residual ? image().requires_grad_() : at::Tensor();
    const NormParameters how = random_parameters(), theirs = copy_of(how);
    theirs.weight.requires_grad_();
    theirs.bias.requires_grad_();
    const at::Tensor wanted = torch_result(input, theirs, residual, activation, true);
    wanted.backward(gradient);

    const at::Tensor output = at::empty_like(input.detach());
    const NormStatistics saved = empty_statistics();
    const at::Tensor gates = gates_for(input, activation);
    batch_norm_train(output, saved, input.detach(), how,
                     {has_residual ? residual.detach() : residual, activation, gates});
    EXPECT_TRUE(at::allclose(output, wanted, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(how.running_mean, theirs.running_mean, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(how.running_variance, theirs.running_variance, 1e-5, 1e-6));

    const NormGradients found = batch_norm_backward(
        {gradient, {}, input.detach(), gates, saved, how, activation, has_residual, true});
    EXPECT_TRUE(at::allclose(found.input, input.grad(), 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(found.weight, theirs.weight.grad(), 1e-4, 1e-4));
    EXPECT_TRUE(at::allclose(found.bias, theirs.bias.grad(), 1e-4, 1e-4));
    EXPECT_EQ(found.residual.defined(), has_residual);
    if (has_residual) {
      EXPECT_TRUE(at::allclose(found.residual, residual.grad()));
    }
    EXPECT_EQ(found.input.strides(), input.strides());
  }
}

TEST(BatchNormOp, EqualsTorchWithAFactorASample) {
  for (const auto& [activation, has_residual] : kEnds) {
    if (activation == Activation::Silu) continue;
    const at::Tensor input = image().requires_grad_(), gradient = at::randn({4, 10, 5, 3});
    const at::Tensor residual = has_residual ? image().requires_grad_() : at::Tensor();
    const at::Tensor factor = at::tensor({0.0f, 1.25f, 0.5f, 1.25f}).view({4, 1, 1, 1});
    const NormParameters how = random_parameters(), theirs = copy_of(how);
    theirs.weight.requires_grad_();
    theirs.bias.requires_grad_();
    at::Tensor wanted = torch_result(input, theirs, {}, Activation::None, true) * factor;
    if (has_residual) wanted = wanted + residual;
    if (activation == Activation::Relu) wanted = at::relu(wanted);
    wanted.backward(gradient);

    const at::Tensor output = at::empty_like(input.detach());
    const NormStatistics saved = empty_statistics();
    const at::Tensor gates = gates_for(input, activation);
    batch_norm_train(output, saved, input.detach(), how,
                     {has_residual ? residual.detach() : residual, activation, gates, {}, factor});
    EXPECT_TRUE(at::allclose(output, wanted, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(how.running_variance, theirs.running_variance, 1e-5, 1e-6));
    const NormGradients found = batch_norm_backward(
        {gradient, {}, input.detach(), gates, saved, how, activation, has_residual, true, factor});
    EXPECT_TRUE(at::allclose(found.input, input.grad(), 1e-4, 1e-5));
    EXPECT_TRUE(at::allclose(found.weight, theirs.weight.grad(), 1e-4, 1e-4));
    EXPECT_TRUE(at::allclose(found.bias, theirs.bias.grad(), 1e-4, 1e-4));
    if (has_residual) {
      EXPECT_TRUE(at::allclose(found.residual, residual.grad()));
    }
  }
}

TEST(BatchNormOp, KnowsAFactorASample) {
  const at::Tensor map = image();
  EXPECT_TRUE(is_sample_factor(at::ones({4, 1, 1, 1}), map));
  EXPECT_TRUE(is_sample_factor(at::ones({6, 1}), at::ones({6, 3})));
  EXPECT_FALSE(is_sample_factor({}, map));
  EXPECT_FALSE(is_sample_factor(at::ones({1, 1, 1, 1}), map));
  EXPECT_FALSE(is_sample_factor(at::ones({4, 10, 1, 1}), map));
  EXPECT_FALSE(is_sample_factor(at::ones({4}), map)) << "it would multiply columns";
  EXPECT_FALSE(is_sample_factor(at::ones({4, 1, 1, 1}, at::kBFloat16), map));
  EXPECT_FALSE(is_sample_factor(at::ones({1, 1, 1, 1}).expand({4, 1, 1, 1}), map));
}

TEST(BatchNormOp, AddsAnotherNormWithoutItsOutput) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const Activation activation : {Activation::None, Activation::Relu}) {
      const at::Tensor input = image(type), other = image(type), output = at::empty_like(input);
      const NormParameters how = random_parameters(), by = random_parameters(),
                           theirs = copy_of(by);
      const NormStatistics saved = empty_statistics(), of_other = empty_statistics(),
                           whole = empty_statistics();
      batch_norm_statistics(of_other, other, by);
      batch_norm_train(at::empty_like(other), whole, other, theirs, {{}, Activation::None});
      EXPECT_TRUE(at::equal(of_other.mean, whole.mean));
      EXPECT_TRUE(at::equal(of_other.inverse_deviation, whole.inverse_deviation));
      EXPECT_TRUE(at::equal(by.running_variance, theirs.running_variance));
      const at::Tensor gates = gates_for(input, activation);
      batch_norm_train(output, saved, input, how,
                       {other, activation, gates, {of_other, by.weight, by.bias}});
      const auto exact = [](const at::Tensor& map, const NormParameters& with) {
        return torch_result(map.to(at::kFloat), copy_of(with), {}, Activation::None, true);
      };
      at::Tensor wanted = exact(input, how) + exact(other, by);
      if (activation == Activation::Relu) wanted.relu_();
      const double rounding = type == at::kFloat ? 1e-5 : type == at::kHalf ? 0x1p-10 : 0x1p-7;
      EXPECT_TRUE(at::allclose(output.to(at::kFloat), wanted, rounding, 1e-4)) << type;
    }
}

TEST(BatchNormOp, EqualsTorchInInference) {
  for (const auto& [activation, has_residual] : kEnds) {
    const at::Tensor input = image(), residual = has_residual ? image() : at::Tensor();
    const NormParameters how = random_parameters();
    const at::Tensor output = at::empty_like(input);
    batch_norm_infer(output, input, how, residual, activation);
    EXPECT_TRUE(
        at::allclose(output, torch_result(input, how, residual, activation, false), 1e-5, 1e-5));
  }
}

TEST(BatchNormOp, TakesMatricesHalvesAndLayersWithoutParameters) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor input = at::randn({33, 10}).to(type), output = at::empty_like(input);
    const NormStatistics saved = empty_statistics();
    batch_norm_train(output, saved, input, {}, {{}, Activation::Relu});
    const at::Tensor wanted =
        torch_result(input.to(at::kFloat), {}, {}, Activation::Relu, true).to(type);
    EXPECT_TRUE(at::allclose(output.to(at::kFloat), wanted.to(at::kFloat), 0x1p-7, 1e-3));
    const NormGradients found = batch_norm_backward(
        {at::ones({33, 10}), {}, input, {}, saved, {}, Activation::Relu, false, false});
    EXPECT_FALSE(found.input.defined() || found.weight.defined() || found.bias.defined());
  }
}

TEST(BatchNormOp, BringsTheGradientIntoTheInputsOrderAndType) {
  const at::Tensor input = image(at::kBFloat16), output = at::empty_like(input);
  const NormStatistics saved = empty_statistics();
  const NormParameters how = random_parameters();
  batch_norm_train(output, saved, input, how, {input, Activation::None});
  const at::Tensor gradient = at::randn({4, 10, 5, 3}).to(at::kBFloat16);
  const auto backward = [&](const at::Tensor& incoming) {
    return batch_norm_backward({incoming, {}, input, {}, saved, how, Activation::None, true, true});
  };
  const NormGradients plain = backward(gradient.contiguous(at::MemoryFormat::ChannelsLast));
  const NormGradients moved = backward(gradient.to(at::kFloat));
  EXPECT_TRUE(at::equal(plain.input, moved.input));
  EXPECT_TRUE(at::equal(moved.residual, gradient));
  const at::Tensor expanded = at::ones({1, 10, 1, 1}).expand({4, 10, 5, 3});
  EXPECT_TRUE(backward(expanded).input.isfinite().all().item<bool>());
}

TEST(BatchNormOp, AddsTheSecondGradientAsASeparateAdditionWould) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const auto& [activation, has_residual] : kEnds) {
      const at::Tensor input = image(type), output = at::empty_like(input);
      const at::Tensor first = image(type), second = at::randn({4, 10, 5, 3}).to(type);
      const NormStatistics saved = empty_statistics();
      const NormParameters how = random_parameters();
      const at::Tensor gates = gates_for(input, activation);
      batch_norm_train(output, saved, input, how,
                       {has_residual ? first : at::Tensor(), activation, gates});
      const auto backward = [&](const at::Tensor& gradient, const at::Tensor& added) {
        return batch_norm_backward(
            {gradient, added, input, gates, saved, how, activation, has_residual, true});
      };
      const NormGradients together = backward(first, second), apart = backward(first + second, {});
      EXPECT_TRUE(at::equal(together.input, apart.input));
      EXPECT_TRUE(at::equal(together.weight, apart.weight));
      EXPECT_TRUE(at::equal(together.bias, apart.bias));
      if (has_residual) {
        EXPECT_TRUE(at::equal(together.residual, apart.residual));
      }
    }
}

/// As if zeros lay between them.
TEST(BatchNormOp, AddsAGradientOfEvenPixelsAlone) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& [activation, has_residual] : kEnds)
      for (const Sizes& shape : {Sizes{3, 16, 5, 4}, Sizes{2, 8, 1, 7}, Sizes{40, 24, 6, 6}}) {
        const auto map = [&] {
          return at::randn(shape).to(type).contiguous(at::MemoryFormat::ChannelsLast);
        };
        const at::Tensor input = map(), gradient = map(), even = even_pixels(map());
        const at::Tensor output = at::empty_like(input), gates = gates_for(input, activation);
        const NormStatistics saved = {at::empty({shape[1]}), at::empty({shape[1]})};
        batch_norm_train(output, saved, input, {},
                         {has_residual ? map() : at::Tensor(), activation, gates});
        const auto backward = [&](const at::Tensor& added) {
          return batch_norm_backward(
              {gradient, added, input, gates, saved, {}, activation, has_residual, true});
        };
        const NormGradients sparse = backward(even),
                            dense = backward(scatter_even_pixels(even, shape));
        EXPECT_TRUE(at::equal(sparse.input, dense.input)) << at::IntArrayRef(shape);
        if (has_residual) {
          EXPECT_TRUE(at::equal(sparse.residual, dense.residual)) << at::IntArrayRef(shape);
        }
      }
}

TEST(BatchNormOp, KeepsGatesOfMapsThatStartAnywhere) {
  const at::Tensor place = at::randn({1 + 6 * 8}).to(at::kBFloat16);
  const at::Tensor input = place.narrow(0, 1, 6 * 8).view({6, 8});
  ASSERT_TRUE(fuses_batch_norm(input));
  const auto gradients_of = [](const at::Tensor& x) {
    const at::Tensor output = at::empty({6, 8}, x.options()), gates = empty_relu_mask(x);
    const NormStatistics saved = {at::empty({8}), at::empty({8})};
    batch_norm_train(output, saved, x, {}, {x, Activation::Relu, gates});
    return batch_norm_backward({x, x, x, gates, saved, {}, Activation::Relu, true, true});
  };
  EXPECT_TRUE(at::equal(gradients_of(input).input, gradients_of(input.clone()).input));
}

TEST(BatchNormOp, KnowsWhichMapsItTakes) {
  EXPECT_TRUE(fuses_batch_norm(image()));
  EXPECT_TRUE(fuses_batch_norm(at::ones({2, 3})));
  EXPECT_TRUE(fuses_batch_norm(at::ones({5, 3, 1, 1})));
  EXPECT_FALSE(fuses_batch_norm({}));
  EXPECT_FALSE(fuses_batch_norm(at::ones({2, 3, 4, 4})));
  EXPECT_FALSE(fuses_batch_norm(at::ones({2, 3, 4})));
  EXPECT_FALSE(fuses_batch_norm(at::ones({3, 2}).t()));
  EXPECT_FALSE(fuses_batch_norm(at::empty({0, 3})));
  EXPECT_FALSE(fuses_batch_norm(at::ones({2, 3}, at::kDouble)));
}

TEST(BatchNormOp, RefusesWhatItCannotNormalise) {
  const at::Tensor input = image(), output = at::empty_like(input);
  const NormStatistics saved = empty_statistics();
  const NormParameters how = random_parameters();
  const auto train = [&](const at::Tensor& from, const NormParameters& with,
                         const at::Tensor& residual, Activation activation) {
    batch_norm_train(output, saved, from, with, {residual, activation});
  };
  EXPECT_THROW(train(input.contiguous(), how, {}, Activation::None), UsageError);
  EXPECT_THROW(train(output, how, {}, Activation::None), UsageError) << "in place";
  EXPECT_THROW(train(input, how, input, Activation::Silu), UsageError);
  EXPECT_THROW(train(input, how, input.contiguous(), Activation::Relu), UsageError);
  EXPECT_THROW(train(input, {.weight = at::ones({9})}, {}, Activation::None), UsageError);
  EXPECT_THROW(
      batch_norm_train(at::empty({1, 10}), saved, at::ones({1, 10}), how, {{}, Activation::None}),
      UsageError)
      << "one value per channel";
  EXPECT_THROW(batch_norm_infer(output, input, {}, {}, Activation::None), UsageError);
  EXPECT_THROW(
      batch_norm_backward({input, {}, input, {}, saved, how, Activation::Relu, true, true}),
      UsageError)
      << "ReLU after a residual without its gates";
  EXPECT_THROW(batch_norm_backward({input,
                                    {},
                                    input,
                                    at::empty({4, 7}, at::kByte),
                                    saved,
                                    how,
                                    Activation::Relu,
                                    true,
                                    true}),
               UsageError)
      << "gates of another map";
  EXPECT_THROW(
      batch_norm_train(output, saved, input, how, {{}, Activation::Silu, empty_relu_mask(input)}),
      UsageError)
      << "a gate of SiLU";
  const auto scale = [&](const at::Tensor& factor, Activation activation,
                         const NormedResidual& by) {
    batch_norm_train(output, saved, input, how,
                     {by.weight.defined() ? input : at::Tensor(), activation, {}, by, factor});
  };
  EXPECT_THROW(scale(at::ones({4, 10, 1, 1}), Activation::None, {}), UsageError);
  EXPECT_THROW(scale(at::ones({4, 1, 1, 1}), Activation::Silu, {}), UsageError);
  EXPECT_THROW(scale(at::ones({4, 1, 1, 1}), Activation::None, {saved, how.weight, how.bias}),
               UsageError);
  EXPECT_THROW(batch_norm_backward({input,
                                    {},
                                    input,
                                    {},
                                    saved,
                                    how,
                                    Activation::Relu,
                                    false,
                                    true,
                                    at::ones({4, 1, 1, 1})}),
               UsageError)
      << "ReLU after a factor without its gates";
  EXPECT_THROW(
      batch_norm_backward(
          {input, at::ones({4, 10, 5}), input, {}, saved, how, Activation::None, false, true}),
      UsageError)
      << "an added gradient of another shape";
}

}  // namespace
}  // namespace triaccel
