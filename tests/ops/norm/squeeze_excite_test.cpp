#include "triaccel/ops/norm/squeeze_excite.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

ExcitationLayers random_layers(std::int64_t channels, std::int64_t hidden) {
  return {at::randn({hidden, channels, 1, 1}), at::randn({hidden}),
          at::randn({channels, hidden, 1, 1}), at::randn({channels})};
}

TEST(Excitation, GivesTheGradientsThatAutogradFinds) {
  at::manual_seed(2);
  ExcitationLayers layers = random_layers(11, 3);
  at::Tensor means = at::randn({6, 11, 1, 1});
  const at::Tensor direction = at::randn({6, 11, 1, 1});
  ASSERT_TRUE(computes_excitation(means, layers));
  const Excitation forward = excitation(means, layers);
  const ExcitationGradient backward = excitation_gradient(direction, forward, layers);
  const ExcitationLayers found = excitation_parameter_gradients(direction, means, forward, backward,
                                                                at::kFloat, at::kBFloat16);
  EXPECT_EQ(found.excite.scalar_type(), at::kBFloat16);
  for (at::Tensor* tensor :
       {&means, &layers.squeeze, &layers.squeeze_bias, &layers.excite, &layers.excite_bias})
    tensor->requires_grad_();
  const at::Tensor gates =
      at::sigmoid(at::conv2d(at::silu(at::conv2d(means, layers.squeeze, layers.squeeze_bias)),
                             layers.excite, layers.excite_bias));
  (gates * direction).sum().backward();
  EXPECT_TRUE(at::allclose(forward.gates, gates, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(backward.means, means.grad(), 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(found.squeeze, layers.squeeze.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(found.squeeze_bias, layers.squeeze_bias.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(found.excite.to(at::kFloat), layers.excite.grad(), 1e-2, 1e-4));
  EXPECT_TRUE(at::allclose(found.excite_bias, layers.excite_bias.grad(), 1e-4, 1e-5));
}

TEST(Excitation, RefusesWhatItDoesNotCompute) {
  const at::Tensor means = at::randn({6, 11, 1, 1});
  const ExcitationLayers layers = random_layers(11, 3);
  ExcitationLayers other = layers;
  other.excite = at::randn({12, 3, 1, 1});
  EXPECT_FALSE(computes_excitation(means, other));
  EXPECT_THROW(excitation(means, other), UsageError);
  other = layers;
  other.squeeze_bias = other.squeeze_bias.to(at::kDouble);
  EXPECT_FALSE(computes_excitation(means, other));
  EXPECT_FALSE(computes_excitation(means.to(at::kDouble), layers));
  EXPECT_FALSE(computes_excitation(at::randn({6, 11, 2, 1}), layers));
  EXPECT_FALSE(computes_excitation(at::Tensor(), layers));
  const Excitation forward = excitation(means, layers);
  EXPECT_THROW(excitation_gradient(means.narrow(0, 0, 5), forward, layers), UsageError);
  EXPECT_THROW(excitation_parameter_gradients(means, means, forward, {means, means.view({11, 6})},
                                              at::kFloat, at::kFloat),
               UsageError);
}

}  // namespace
}  // namespace triaccel
