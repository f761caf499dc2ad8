#include "triaccel/ops/map_convolution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

at::Tensor made(at::IntArrayRef sizes) {
  return at::randn(sizes).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(MapConvolutionOp, IsTheConvolutionOfLibtorch) {
  at::manual_seed(1);
  const WindowPlacement windows = {.stride = {1, 2}, .padding = {1, 0}};
  const at::Tensor map = made({2, 64, 4, 9}), weight = made({128, 64, 3, 2}).requires_grad_();
  const at::Tensor found = map_convolution(map, weight, windows);
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(found.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_FALSE(found.requires_grad());
  const at::Tensor wanted = at::conv2d(map.to(at::kFloat), weight.detach().to(at::kFloat), {},
                                       windows.stride, windows.padding);
  EXPECT_TRUE(at::allclose(found.to(at::kFloat), wanted, 0x1p-8, 1e-2));
}

TEST(MapConvolutionOp, GivesTheGradientOfItsInput) {
  at::manual_seed(2);
  const WindowPlacement windows = {.padding = {1, 0}};
  const at::Tensor map = made({2, 64, 4, 4}), weight = made({128, 64, 3, 2});
  at::Tensor wide = map.to(at::kFloat).requires_grad_();
  const at::Tensor output =
      at::conv2d(wide, weight.to(at::kFloat), {}, windows.stride, windows.padding);
  const at::Tensor dy = made(output.sizes());
  output.backward(dy.to(at::kFloat));
  const at::Tensor gradient = map_input_gradient(dy, map, weight, windows);
  EXPECT_EQ(gradient.strides(), map.strides());
  EXPECT_TRUE(at::allclose(gradient.to(at::kFloat), wide.grad(), 0x1p-8, 1e-2));
}

TEST(MapConvolutionOp, SaysWhatItDoesNotCompute) {
  const at::Tensor map = made({2, 64, 4, 4}), weight = made({64, 64, 3, 3});
  EXPECT_TRUE(computes_map_convolution(map, weight, {}));
  EXPECT_FALSE(computes_map_convolution({}, weight, {}));
  EXPECT_FALSE(computes_map_convolution(map, {}, {}));
  EXPECT_FALSE(computes_map_convolution(map.to(at::kFloat), weight.to(at::kFloat), {}));
  EXPECT_FALSE(computes_map_convolution(map, weight.to(at::kHalf), {})) << "two types";
  EXPECT_FALSE(computes_map_convolution(map.contiguous(), weight, {})) << "memory order";
  EXPECT_FALSE(computes_map_convolution(map, weight.contiguous(), {})) << "memory order";
  EXPECT_FALSE(computes_map_convolution(made({2, 32, 4, 4}), made({64, 32, 3, 3}), {}));
  EXPECT_FALSE(computes_map_convolution(map, made({96, 64, 3, 3}), {})) << "96 filters";
  EXPECT_FALSE(computes_map_convolution(map, made({64, 64, 5, 5}), {})) << "no window fits";
  EXPECT_FALSE(computes_map_convolution(made({2, 64, 5, 5}), weight, {})) << "nine pixels";
  EXPECT_TRUE(computes_map_input_gradient(map, weight, {}));
  EXPECT_FALSE(computes_map_input_gradient(map, weight, {.stride = {2, 2}}));
  EXPECT_FALSE(computes_map_input_gradient(made({2, 64, 6, 6}), weight, {})) << "36 pixels";
  EXPECT_FALSE(computes_map_convolution(map, weight, {.stride = {0, 1}}));
  EXPECT_FALSE(computes_map_convolution(map, weight, {.padding = {3, 0}}));
  EXPECT_THROW(map_convolution(map, weight, {.padding = {3, 0}}), UsageError);
  const at::Tensor dy = made({2, 64, 2, 2});
  EXPECT_NO_THROW(map_input_gradient(dy, map, weight, {}));
  EXPECT_THROW(map_input_gradient(made({2, 64, 1, 1}), map, weight, {.stride = {2, 2}}),
               UsageError);
  EXPECT_THROW(map_input_gradient(made({2, 64, 3, 2}), map, weight, {}), UsageError);
  EXPECT_THROW(map_input_gradient(dy.contiguous(), map, weight, {}), UsageError);
}

}  // namespace
}  // namespace triaccel
