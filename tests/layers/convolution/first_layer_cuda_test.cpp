#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "triaccel/layers/convolution/convolution.h"
#include "triaccel/layers/execution/rounding.h"

namespace triaccel {
namespace {

using ImageSizes = std::vector<std::int64_t>;

struct FirstConvolutionCase {
  std::string name;
  ImageSizes images, weight;
  std::int64_t stride, padding;
  bool ours;  // computed by stem_convolution, else by libtorch
};

const std::vector<FirstConvolutionCase> kFirstConvolutions = {
    {"ImageNet_stem", {20, 3, 32, 32}, {64, 3, 7, 7}, 2, 3, true},
    {"CIFAR_stem", {20, 3, 32, 32}, {64, 3, 3, 3}, 1, 1, true},
    {"EfficientNet_stem", {3, 3, 57, 61}, {32, 3, 3, 3}, 2, 1, true},
    {"one_channel", {7, 1, 28, 28}, {8, 1, 5, 5}, 1, 2, true},
    {"patches_of_four", {9, 3, 32, 32}, {192, 3, 4, 4}, 4, 0, true},
    {"six_filters", {7, 1, 28, 28}, {6, 1, 5, 5}, 1, 2, false},
    {"patches_of_sixteen", {2, 3, 64, 64}, {48, 3, 16, 16}, 16, 0, false},
    {"five_channels", {4, 5, 16, 16}, {16, 5, 3, 3}, 1, 1, false}};

class FirstLayerOnCuda : public testing::TestWithParam<FirstConvolutionCase> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(1);
  }
  const at::Device device_ = at::Device(at::kCUDA, 0);
};

/// Of what the layer is given, rounded once, in FP64; both ways of computing it must agree with it.
TEST_P(FirstLayerOnCuda, GivesWhatLibtorchGives) {
  const FirstConvolutionCase& c = GetParam();
  const ImageSizes stride(2, c.stride), padding(2, c.padding), one = {1, 1}, none = {0, 0};
  const ConvolutionGeometry geometry = {
      .stride = stride, .padding = padding, .dilation = one, .output_padding = none};
  for (const Precision precision : {Precision::Bf16, Precision::Fp16})
    for (const auto order : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
      const at::ScalarType type = scalar_type_of(precision);
      const double unit = precision == Precision::Bf16 ? 0x1p-7 : 0x1p-10;
      const at::Tensor images = at::randn(c.images).contiguous(order).to(device_);
      const at::Tensor weight =
          at::randn(c.weight).contiguous(at::MemoryFormat::ChannelsLast).to(device_);
      ASSERT_EQ(is_stem_convolution(images, weight, geometry, precision), c.ours);
      const auto exact = [&](const at::Tensor& t) { return t.to(type).to(at::kDouble).cpu(); };
      const auto expect_near = [&](const at::Tensor& found, const at::Tensor& wanted) {
        const at::Tensor error = found.to(at::kDouble).cpu() - wanted;
        EXPECT_LE(error.abs().max().item<double>(), unit * wanted.abs().max().item<double>());
        EXPECT_LE(error.norm().item<double>(), unit * wanted.norm().item<double>());
      };

      const at::Tensor output =
          convolution_forward(images, {weight, geometry, precision, {}}, type);
      EXPECT_EQ(output.scalar_type(), type);
      const at::Tensor x = exact(images), w = exact(weight);
      expect_near(output, at::conv2d(x, w, {}, stride, padding));

      const at::Tensor dy = at::randn(output.sizes()).to(device_).to(type).contiguous(order);
      const LayerGradients found = convolution_backward(
          dy, images, {weight, geometry, precision, {}}, {.want_input = false, .weight = type});
      EXPECT_FALSE(found.input.defined());
      // FP16 alone says that the gradient carries the layer's scale.
      EXPECT_EQ(found.weight.scalar_type(),
                c.ours && precision == Precision::Bf16 ? at::kFloat : type);
      expect_near(found.weight, std::get<1>(at::convolution_backward(
                                    exact(dy), x, w, at::OptionalIntArrayRef(), stride, padding,
                                    one, false, none, 1, {false, true, false})));
    }
}

INSTANTIATE_TEST_SUITE_P(FirstConvolutions, FirstLayerOnCuda, testing::ValuesIn(kFirstConvolutions),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace triaccel
