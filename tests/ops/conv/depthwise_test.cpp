#include "triaccel/ops/conv/depthwise.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/tensors/channels_last.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// Within the rounding of one number of the type, relative to the largest.
void expect_near(const at::Tensor& found, const at::Tensor& wanted) {
  const double unit = found.scalar_type() == at::kFloat  ? 1e-5
                      : found.scalar_type() == at::kHalf ? 0x1p-10
                                                         : 0x1p-7;
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_LE((found.to(at::kDouble) - wanted).abs().max().item<double>(),
            unit * wanted.abs().max().item<double>());
}

struct Reference {
  at::Tensor output, input_gradient, weight_gradient;
};

/// libtorch's own, in FP64, on the weight as the layer's type holds it.
Reference by_libtorch(const at::Tensor& input, const at::Tensor& weight,
                      const at::Tensor& output_gradient, const WindowPlacement& geometry) {
  const at::Tensor x = input.to(at::kDouble);
  const at::Tensor w = weight.to(input.scalar_type()).to(at::kDouble);
  const std::int64_t groups = weight.size(0);
  const auto [dx, dw, db] = at::convolution_backward(
      output_gradient.to(at::kDouble), x, w, c10::nullopt, geometry.stride, geometry.padding,
      {1, 1}, false, {0, 0}, groups, {true, true, false});
  return {
      at::convolution(x, w, {}, geometry.stride, geometry.padding, {1, 1}, false, {0, 0}, groups),
      dx, dw};
}

TEST(Depthwise, AgreesWithLibtorch) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const std::int64_t filter : {3, 5})
      for (const std::int64_t stride : {1, 2})
        for (const std::int64_t channels : {1, 12}) {
          const WindowPlacement geometry = {.stride = {stride, stride},
                                            .padding = {filter / 2, filter / 2}};
          const at::Tensor input = channels_last({3, channels, 9, 7}, type);
          const at::Tensor weight = at::randn({channels, 1, filter, filter});
          ASSERT_TRUE(computes_depthwise(input, weight, geometry));
          const at::Tensor output = depthwise_forward(input, weight, geometry);
          const at::Tensor dy = channels_last(output.sizes(), type);
          const Reference wanted = by_libtorch(input, weight, dy, geometry);
          expect_near(output, wanted.output);
          expect_near(depthwise_input_gradient(dy, input, weight, geometry), wanted.input_gradient);
          expect_near(depthwise_weight_gradient(dy, input, weight, geometry),
                      wanted.weight_gradient);
        }
}

TEST(Depthwise, KeepsTypesAndMemoryOrder) {
  const WindowPlacement geometry = {.padding = {1, 1}};
  const at::Tensor input = channels_last({2, 4, 5, 5}, at::kBFloat16);
  const at::Tensor weight =
      at::randn({4, 1, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const at::Tensor output = depthwise_forward(input, weight, geometry);
  EXPECT_TRUE(output.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(output.scalar_type(), at::kBFloat16);
  EXPECT_FALSE(output.requires_grad());
  const at::Tensor gradient = depthwise_weight_gradient(output, input, weight, geometry);
  EXPECT_EQ(gradient.scalar_type(), at::kFloat);
  EXPECT_EQ(gradient.strides(), weight.strides());
}

TEST(Depthwise, SaysWhatItDoesNotCompute) {
  const at::Tensor input = channels_last({2, 4, 5, 5}), weight = at::randn({4, 1, 3, 3});
  EXPECT_TRUE(computes_depthwise(input, weight, {}));
  EXPECT_FALSE(computes_depthwise(input.contiguous(), weight, {})) << "channels first";
  EXPECT_FALSE(computes_depthwise(input.to(at::kDouble), weight, {}));
  EXPECT_FALSE(computes_depthwise(input, weight.to(at::kHalf), {}));
  EXPECT_FALSE(computes_depthwise(input, at::randn({4, 1, 7, 7}), {}));
  EXPECT_FALSE(computes_depthwise(input, at::randn({8, 1, 3, 3}), {})) << "two filters a channel";
  EXPECT_FALSE(computes_depthwise(input, weight, {.stride = {1, 2}}));
  EXPECT_FALSE(computes_depthwise(input, weight, {.stride = {3, 3}}));
  EXPECT_FALSE(computes_depthwise(input, weight, {.padding = {3, 0}}));
  EXPECT_FALSE(computes_depthwise(channels_last({2, 4, 2, 5}), weight, {})) << "no window fits";
  EXPECT_FALSE(computes_depthwise(at::Tensor(), weight, {}));
  EXPECT_THROW(depthwise_forward(input.contiguous(), weight, {}), UsageError);
  EXPECT_THROW(depthwise_weight_gradient(input, input, weight, {}), UsageError);
}

}  // namespace
}  // namespace triaccel
