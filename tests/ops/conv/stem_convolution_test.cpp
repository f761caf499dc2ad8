#include "triaccel/ops/conv/stem_convolution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

at::Tensor in_channel_order(const at::Tensor& tensor) {
  return tensor.contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(StemConvolutionOp, IsTheConvolutionOfRoundedNumbers) {
  at::manual_seed(1);
  const WindowPlacement geometry = {.stride = {2, 1}, .padding = {3, 2}};
  const at::Tensor weight = in_channel_order(at::randn({16, 3, 7, 5})).requires_grad_();
  for (const auto order : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
    const at::Tensor images = at::randn({2, 3, 14, 9}).contiguous(order);
    const at::Tensor found = stem_convolution(images, weight, geometry, at::kBFloat16);
    EXPECT_EQ(found.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(found.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_FALSE(found.requires_grad());
    const auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
    const at::Tensor wanted = at::conv2d(rounded(images), rounded(weight.detach()), {},
                                         geometry.stride, geometry.padding);
    EXPECT_TRUE(at::allclose(found.to(at::kFloat), wanted, 0x1p-7, 1e-4));

    const at::Tensor dy = in_channel_order(at::randn(found.sizes()).to(at::kBFloat16));
    const at::Tensor gradient = stem_weight_gradient(dy, images, weight, geometry);
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_EQ(gradient.strides(), weight.strides());
    const at::Tensor wanted_gradient = std::get<1>(at::convolution_backward(
        dy.to(at::kFloat), rounded(images), weight.detach(), at::OptionalIntArrayRef(),
        geometry.stride, geometry.padding, {1, 1}, false, {0, 0}, 1, {false, true, false}));
    EXPECT_TRUE(at::allclose(gradient, wanted_gradient, 1e-4, 1e-3));
  }
}

TEST(StemConvolutionOp, SaysWhatItDoesNotCompute) {
  const at::Tensor images = at::randn({2, 3, 8, 8}),
                   weight = in_channel_order(at::randn({8, 3, 3, 3}));
  const auto weight_of = [](at::IntArrayRef sizes) { return in_channel_order(at::randn(sizes)); };
  EXPECT_TRUE(computes_stem_convolution(images, weight, {}));
  EXPECT_FALSE(computes_stem_convolution({}, weight, {}));
  EXPECT_FALSE(computes_stem_convolution(images, {}, {}));
  EXPECT_FALSE(computes_stem_convolution(images.transpose(2, 3), weight, {}))
      << "neither memory order";
  EXPECT_FALSE(computes_stem_convolution(images.to(at::kByte), weight, {}));
  EXPECT_FALSE(computes_stem_convolution(images, weight.to(at::kHalf), {}));
  EXPECT_FALSE(computes_stem_convolution(images, weight.contiguous(), {}));
  EXPECT_FALSE(computes_stem_convolution(images, weight_of({8, 2, 3, 3}), {}));
  EXPECT_FALSE(computes_stem_convolution(images, weight_of({12, 3, 3, 3}), {})) << "12 filters";
  EXPECT_FALSE(computes_stem_convolution(images, weight_of({8, 3, 9, 3}), {})) << "no window fits";
  EXPECT_FALSE(computes_stem_convolution(at::randn({2, 5, 8, 8}), weight_of({8, 5, 3, 3}), {}))
      << "many channels";
  EXPECT_FALSE(computes_stem_convolution(at::randn({1, 3, 64, 64}), weight_of({8, 3, 16, 16}), {}))
      << "256 taps";
  EXPECT_FALSE(computes_stem_convolution(images, weight, {.padding = {3, 0}}));
  EXPECT_FALSE(computes_stem_convolution(images, weight, {.stride = {1, 0}}));
}

TEST(StemConvolutionOp, RefusesWhatItCannotCompute) {
  const at::Tensor images = at::randn({2, 3, 8, 8}),
                   weight = in_channel_order(at::randn({8, 3, 3, 3}));
  const at::Tensor dy = in_channel_order(at::randn({2, 8, 6, 6}).to(at::kHalf));
  EXPECT_THROW(stem_convolution(images, weight, {.stride = {0, 1}}, at::kHalf), UsageError);
  EXPECT_THROW(stem_convolution(images, weight, {}, at::kFloat), UsageError);
  EXPECT_NO_THROW(stem_weight_gradient(dy, images, weight, {}));
  EXPECT_THROW(stem_weight_gradient({}, images, weight, {}), UsageError);
  EXPECT_THROW(stem_weight_gradient(dy.to(at::kFloat), images, weight, {}), UsageError);
  EXPECT_THROW(stem_weight_gradient(dy.contiguous(), images, weight, {}), UsageError);
  EXPECT_THROW(stem_weight_gradient(dy, images, weight, {.padding = {1, 1}}), UsageError);
}

}  // namespace
}  // namespace triaccel
