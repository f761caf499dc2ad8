#include "triaccel/ops/conv/max_pool.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/tensors/channels_last.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(MaxPool, AgreesWithLibtorchForwardAndBackward) {
  at::manual_seed(1);
  const PoolGeometry geometry = {.window = {3, 2}, .stride = {2, 1}, .padding = {1, 0}};
  at::Tensor map = channels_last({2, 6, 11, 8}).requires_grad_();
  const at::Tensor wanted = at::max_pool2d(map, geometry.window, geometry.stride, geometry.padding);
  const Maxima found = max_pool(map, geometry);
  EXPECT_TRUE(at::equal(found.values, wanted));
  EXPECT_FALSE(found.values.requires_grad());
  const at::Tensor dy = channels_last(wanted.sizes());
  (wanted * dy).sum().backward();
  EXPECT_TRUE(at::allclose(max_pool_gradient(dy, found.taps, map.sizes(), geometry), map.grad()));
}

TEST(MaxPool, AddsTwoGradientsAsLibtorchDoes) {
  at::manual_seed(2);
  const PoolGeometry geometry = {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor map = channels_last({2, 8, 7, 5}, type);
    const Maxima found = max_pool(map, geometry);
    const at::Tensor one = channels_last(found.values.sizes(), type);
    const at::Tensor other = channels_last(found.values.sizes(), type);
    EXPECT_TRUE(at::equal(max_pool_gradient(one, found.taps, map.sizes(), geometry, other),
                          max_pool_gradient(one + other, found.taps, map.sizes(), geometry)));
    EXPECT_THROW(max_pool_gradient(one, found.taps, map.sizes(), geometry, other.contiguous()),
                 UsageError);
  }
}

TEST(MaxPool, KeepsTypesAndMemoryOrder) {
  const PoolGeometry geometry = {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  const at::Tensor map = channels_last({2, 8, 5, 5}, at::kBFloat16);
  const Maxima found = max_pool(map, geometry);
  EXPECT_EQ(found.values.scalar_type(), at::kBFloat16);
  EXPECT_EQ(found.taps.scalar_type(), at::kByte);
  EXPECT_TRUE(found.values.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(found.taps.is_contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor gradient = max_pool_gradient(found.values, found.taps, map.sizes(), geometry);
  EXPECT_EQ(gradient.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(gradient.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(MaxPool, SaysWhatItDoesNotCompute) {
  const at::Tensor map = channels_last({2, 4, 6, 6});
  EXPECT_TRUE(pools_maxima(map, {}));
  EXPECT_FALSE(pools_maxima({}, {}));
  EXPECT_FALSE(pools_maxima(map.contiguous(), {})) << "channels first";
  EXPECT_FALSE(pools_maxima(map.to(at::kDouble), {}));
  EXPECT_FALSE(pools_maxima(map, {.window = {7, 2}})) << "no window fits";
  EXPECT_FALSE(pools_maxima(map, {.stride = {0, 2}}));
  EXPECT_FALSE(pools_maxima(map, {.window = {3, 3}, .padding = {2, 0}}));
  EXPECT_FALSE(pools_maxima(channels_last({1, 1, 16, 16}), {.window = {16, 16}})) << "256 taps";
  EXPECT_THROW(max_pool(map.contiguous(), {}), UsageError);
}

TEST(MaxPool, RejectsGradientsThatDoNotFitTheMap) {
  const at::Tensor map = channels_last({2, 4, 6, 6});
  const Maxima found = max_pool(map, {});
  const at::Tensor& dy = found.values;
  EXPECT_THROW(max_pool_gradient(dy, found.taps, {2, 4, 8, 8}, {}), UsageError);
  EXPECT_THROW(max_pool_gradient(dy, found.taps, {2, 4, 6}, {}), UsageError);
  EXPECT_THROW(max_pool_gradient(dy.contiguous(), found.taps, map.sizes(), {}), UsageError);
  EXPECT_THROW(max_pool_gradient(dy, found.taps.to(at::kLong), map.sizes(), {}), UsageError);
  EXPECT_THROW(max_pool_gradient(dy, found.taps.narrow(0, 0, 1), map.sizes(), {}), UsageError);
}

}  // namespace
}  // namespace triaccel
