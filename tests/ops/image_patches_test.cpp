#include "triaccel/ops/image_patches.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(ImagePatches, TurnAConvolutionIntoAMatrixProduct) {
  at::manual_seed(1);
  const PatchGeometry geometry = {.window = {7, 5}, .stride = {2, 1}, .padding = {3, 2}};
  const at::Tensor weight = at::randn({16, 3, 7, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor flat = weight.permute({0, 2, 3, 1}).reshape({16, 105});
  for (const auto order : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
    const at::Tensor images = at::randn({2, 3, 14, 9}).contiguous(order);
    const at::Tensor matrix = image_patches(images, geometry, at::kFloat);
    ASSERT_EQ(matrix.size(1), patch_columns(3, geometry));
    const at::Tensor wanted = at::conv2d(images, weight, {}, geometry.stride, geometry.padding);
    const at::Tensor product = at::matmul(matrix.narrow(1, 0, 105), flat.t());
    EXPECT_TRUE(
        at::allclose(product.view({2, 7, 9, 16}).permute({0, 3, 1, 2}), wanted, 1e-4, 1e-4));
    EXPECT_EQ(matrix.narrow(1, 105, 7).abs().max().item<float>(), 0);
  }
}

TEST(ImagePatches, HaveTheTypeAskedFor) {
  const at::Tensor images = at::randn({1, 1, 4, 4}).requires_grad_();
  const at::Tensor matrix = image_patches(images, {.window = {1, 1}}, at::kHalf);
  EXPECT_EQ(matrix.scalar_type(), at::kHalf);
  EXPECT_FALSE(matrix.requires_grad());
  EXPECT_EQ(matrix.sizes(), at::IntArrayRef({16, 8}));
  EXPECT_TRUE(at::equal(matrix.select(1, 0), images.view({16}).to(at::kHalf)));
}

TEST(ImagePatches, SayWhatTheyDoNotCut) {
  const at::Tensor images = at::randn({2, 3, 8, 8});
  EXPECT_TRUE(cuts_patches(images, {}));
  EXPECT_FALSE(cuts_patches({}, {}));
  EXPECT_FALSE(cuts_patches(images.transpose(2, 3), {})) << "neither memory order";
  EXPECT_FALSE(cuts_patches(images.to(at::kByte), {}));
  EXPECT_FALSE(cuts_patches(at::randn({2, 9, 8, 8}), {})) << "many channels";
  EXPECT_FALSE(cuts_patches(images, {.window = {9, 3}})) << "no window fits";
  EXPECT_FALSE(cuts_patches(images, {.padding = {3, 0}}));
  EXPECT_FALSE(cuts_patches(images, {.stride = {1, 0}}));
  EXPECT_FALSE(cuts_patches(at::randn({1, 3, 64, 64}), {.window = {64, 64}})) << "12288 numbers";
  EXPECT_THROW(image_patches(images, {.window = {9, 3}}, at::kFloat), UsageError);
  EXPECT_THROW(image_patches(images, {}, at::kDouble), UsageError);
}

}  // namespace
}  // namespace triaccel
