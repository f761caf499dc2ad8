#include "triaccel/ops/norm/channel_gate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

at::Tensor map_of(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes).to(type).contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(ChannelGate, GivesTheGradientsOfASqueezeAndExcitation) {
  at::manual_seed(1);
  at::Tensor map = map_of({3, 5, 4, 7}).requires_grad_(), gates = at::rand({3, 5, 1, 1});
  gates.requires_grad_();
  const at::Tensor mean = map.mean({2, 3}, true), gated = map * gates;
  const at::Tensor of_gated = map_of(map.sizes()), of_mean = at::randn({3, 5, 1, 1});
  ((gated * of_gated).sum() + (mean * of_mean).sum()).backward();
  EXPECT_TRUE(at::allclose(pixel_mean(map), mean, 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(gate_channels(map, gates), gated));
  EXPECT_TRUE(at::allclose(gates_gradient(of_gated, map), gates.grad(), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(gated_map_gradient(of_gated, gates, of_mean, map.sizes()), map.grad(),
                           1e-5, 1e-6));
}

TEST(ChannelGate, BroadcastsTheMeansGradientAlone) {
  const at::Tensor of_mean = at::randn({2, 8, 1, 1}).to(at::kBFloat16);
  const at::Tensor found = gated_map_gradient({}, {}, of_mean, {2, 8, 4, 4});
  EXPECT_TRUE(found.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(found, (of_mean / 16).expand({2, 8, 4, 4})));
}

TEST(ChannelGate, SaysWhatItDoesNotCompute) {
  const at::Tensor map = map_of({2, 4, 3, 3}, at::kHalf);
  const at::Tensor gates = at::rand({2, 4, 1, 1}).to(at::kHalf);
  EXPECT_TRUE(gates_channels(map, gates));
  EXPECT_TRUE(gates_channels(map, {}));
  EXPECT_FALSE(gates_channels(map.contiguous(), gates)) << "channels first";
  EXPECT_FALSE(gates_channels(map, gates.to(at::kFloat)));
  EXPECT_FALSE(gates_channels(map, gates.narrow(1, 0, 3)));
  EXPECT_FALSE(gates_channels(map.to(at::kDouble), {}));
  EXPECT_THROW(gate_channels(map, gates.to(at::kFloat)), UsageError);
  EXPECT_THROW(gated_map_gradient(map, {}, {}, map.sizes()), UsageError);
  EXPECT_THROW(gated_map_gradient({}, {}, {}, map.sizes()), UsageError);
}

}  // namespace
}  // namespace triaccel
