#include "triaccel/layers/convolution/live_taps.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "triaccel/layers/execution/rounding.h"

namespace triaccel {
namespace {

using Sizes = std::vector<std::int64_t>;

struct SmallMap {
  Sizes input, weight, stride, padding;

  ConvolutionGeometry geometry() const {
    return {.stride = stride, .padding = padding, .dilation = {1, 1}, .output_padding = {0, 0}};
  }
};

const std::vector<SmallMap> kWholeMaps = {
    {{5, 7, 2, 2}, {6, 7, 3, 3}, {1, 1}, {1, 1}}, {{5, 7, 1, 2}, {6, 7, 3, 3}, {1, 1}, {1, 1}},
    {{5, 7, 2, 1}, {6, 7, 3, 3}, {1, 1}, {1, 1}}, {{4, 8, 2, 2}, {8, 8, 5, 5}, {1, 1}, {2, 2}},
    {{4, 8, 1, 3}, {8, 8, 3, 5}, {1, 1}, {1, 2}}, {{3, 4, 3, 3}, {5, 4, 5, 5}, {2, 2}, {2, 2}},
    {{1, 1, 2, 2}, {1, 1, 3, 3}, {1, 1}, {1, 1}},
};

TEST(WholeMapProduct, IsTheConvolutionAndItsGradient) {
  at::manual_seed(3);
  for (const SmallMap& map : kWholeMaps)
    for (const bool channels_last : {false, true}) {
      const ConvolutionGeometry g = map.geometry();
      const auto format =
          channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      const at::Tensor x = at::randn(map.input).contiguous(format);
      const at::Tensor w = at::randn(map.weight).contiguous(format);
      const auto part = whole_map_part(x, w, g);
      ASSERT_TRUE(part) << x.sizes() << w.sizes();
      const at::Tensor matrix = weight_operand(w, *part, Precision::Fp32, Arithmetic::Native);
      const at::Tensor expected =
          at::convolution(x.to(at::kDouble), w.to(at::kDouble), {}, g.stride, g.padding, g.dilation,
                          false, g.output_padding, 1);
      const at::Tensor y = whole_map_product(x, matrix, *part);
      ASSERT_EQ(y.sizes(), expected.sizes());
      EXPECT_TRUE(at::allclose(y.to(at::kDouble), expected, 1e-5, 1e-5));
      const at::Tensor dy = at::randn(y.sizes());
      const at::Tensor exact = std::get<0>(at::convolution_backward(
          dy.to(at::kDouble), x.to(at::kDouble), w.to(at::kDouble), c10::nullopt, g.stride,
          g.padding, g.dilation, false, g.output_padding, 1, {true, false, false}));
      const at::Tensor dx = whole_map_input_gradient(dy, x, matrix);
      ASSERT_EQ(dx.sizes(), x.sizes());
      EXPECT_TRUE(at::allclose(dx.to(at::kDouble), exact, 1e-5, 1e-5));
      EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_TRUE(dx.is_contiguous(at::MemoryFormat::ChannelsLast));
    }
}

TEST(WholeMapProduct, IsNotThereWhereAWindowSeesLess) {
  const auto has_part = [](const SmallMap& map) {
    return whole_map_part(at::empty(map.input), at::empty(map.weight), map.geometry()).has_value();
  };
  EXPECT_FALSE(has_part({{5, 7, 3, 3}, {6, 7, 3, 3}, {1, 1}, {1, 1}}))
      << "a corner sees four of nine";
  EXPECT_FALSE(has_part({{5, 7, 4, 4}, {6, 7, 3, 3}, {2, 2}, {1, 1}}));
  EXPECT_FALSE(has_part({{5, 7, 2, 2}, {6, 7, 1, 1}, {1, 1}, {0, 0}})) << "single taps";
  EXPECT_FALSE(has_part({{5, 7, 2, 2}, {6, 7, 3, 3}, {1, 1}, {2, 2}})) << "windows of padding";
  EXPECT_FALSE(has_part({{5, 7, 1, 1}, {6, 7, 3, 3}, {1, 1}, {1, 1}})) << "one window";
  EXPECT_FALSE(has_part({{5, 7, 4, 4}, {6, 7, 7, 7}, {1, 1}, {3, 3}})) << "a matrix of 256 taps";
  EXPECT_FALSE(has_part({{0, 7, 2, 2}, {6, 7, 3, 3}, {1, 1}, {1, 1}})) << "no samples";
  EXPECT_FALSE(has_part({{5, 7, 2}, {6, 7, 3}, {1}, {1}})) << "one dimension";
  SmallMap grouped = kWholeMaps[0];
  ConvolutionGeometry g = grouped.geometry();
  g.groups = 7;
  EXPECT_FALSE(whole_map_part(at::empty(grouped.input), at::empty({7, 1, 3, 3}), g));
  g = grouped.geometry();
  g.dilation = {2, 2};
  g.padding = {2, 2};
  EXPECT_FALSE(whole_map_part(at::empty(grouped.input), at::empty(grouped.weight), g));
}

}  // namespace
}  // namespace triaccel
