#include "triaccel/ops/tensors/bias.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(Bias, IsAddedToAndSummedOverTheRowsOfAnyShape) {
  at::manual_seed(1);
  const at::Tensor bias = at::randn({6});
  const at::Tensor map = at::randn({2, 6, 3, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor tensors[] = {at::randn({7, 6}), at::randn({2, 5, 6}), map};
  for (const at::Tensor& tensor : tensors) {
    const bool is_map = tensor.dim() == 4;
    const at::Tensor wanted = tensor + (is_map ? bias.view({6, 1, 1}) : bias);
    const at::Tensor rows = is_map ? tensor.permute({0, 2, 3, 1}) : tensor;
    EXPECT_TRUE(at::allclose(bias_gradient(tensor), rows.reshape({-1, 6}).sum(0), 1e-5, 1e-5));
    add_bias(tensor, bias);
    EXPECT_TRUE(at::equal(tensor, wanted));
  }
}

TEST(Bias, GradientIsFp32OfAnyType) {
  const at::Tensor gradient = bias_gradient(at::full({300, 4}, 257.0, at::kBFloat16));
  EXPECT_TRUE(at::equal(gradient, at::full({4}, 256.0f * 300)));
  EXPECT_TRUE(at::equal(bias_gradient(at::empty({0, 4})), at::zeros({4})));
}

TEST(Bias, SaysWhatItDoesNotTake) {
  const at::Tensor map = at::randn({2, 6, 3, 5});
  EXPECT_FALSE(takes_bias(map)) << "channels first";
  EXPECT_FALSE(takes_bias({}));
  EXPECT_FALSE(takes_bias(at::randn({4, 6}).t()));
  EXPECT_FALSE(takes_bias(at::randn({6})));
  EXPECT_FALSE(takes_bias(at::randn({4, 0})));
  EXPECT_FALSE(takes_bias(at::randn({4, 6}).to(at::kDouble)));
  EXPECT_THROW(add_bias(map, at::randn({6})), UsageError);
  EXPECT_THROW(add_bias(at::randn({4, 6}), at::randn({5})), UsageError);
  EXPECT_THROW(add_bias(at::randn({4, 6}), at::randn({6}).to(at::kHalf)), UsageError);
  EXPECT_THROW(bias_gradient(map), UsageError);
}

}  // namespace
}  // namespace triaccel
