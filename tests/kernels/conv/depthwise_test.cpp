#include "triaccel/kernels/conv/depthwise.h"

#include "tests/kernels/conv/depthwise_cases.h"
#include "triaccel/kernels/conv/depthwise_work.h"

namespace triaccel::kernels {
namespace {

/// By the definition, in FP64. With `absolute`, the sums of the terms' magnitudes.
DepthwiseResults by_definition(const DepthwiseShape& s, const DepthwiseMaps& maps, bool absolute) {
  const auto exact = [&](const at::Tensor& tensor) {
    const at::Tensor wide = tensor.to(at::kDouble);
    return absolute ? wide.abs() : wide;
  };
  const at::Tensor input = exact(maps.input), dy = exact(maps.output_gradient);
  const at::Tensor weight = exact(maps.weight.to(torch_type_of(s.type)));
  DepthwiseResults r = {at::zeros_like(dy), at::zeros_like(input), at::zeros_like(weight)};
  const auto x = input.accessor<double, 4>(), g = dy.accessor<double, 4>();
  const auto w = weight.accessor<double, 3>();
  auto y = r.output.accessor<double, 4>(), dx = r.input_gradient.accessor<double, 4>();
  auto dw = r.weight_gradient.accessor<double, 3>();
  for (std::int64_t n = 0; n < s.images; ++n)
    for (std::int64_t oy = 0; oy < s.rows.output; ++oy)
      for (std::int64_t ox = 0; ox < s.columns.output; ++ox)
        for (std::int64_t kr = 0; kr < s.filter; ++kr)
          for (std::int64_t kc = 0; kc < s.filter; ++kc) {
            const std::int64_t iy = oy * s.stride - s.rows.padding + kr;
            const std::int64_t ix = ox * s.stride - s.columns.padding + kc;
            if (iy < 0 || iy >= s.rows.input || ix < 0 || ix >= s.columns.input) continue;
            for (std::int64_t c = 0; c < s.channels; ++c) {
              y[n][oy][ox][c] += w[c][kr][kc] * x[n][iy][ix][c];
              dx[n][iy][ix][c] += w[c][kr][kc] * g[n][oy][ox][c];
              dw[c][kr][kc] += g[n][oy][ox][c] * x[n][iy][ix][c];
            }
          }
  return r;
}

void expect_definition(const DepthwiseShape& shape) {
  const DepthwiseMaps maps = random_maps(shape);
  expect_close(computed_on_cpu(shape, maps), by_definition(shape, maps, false),
               by_definition(shape, maps, true), described(shape));
}

TEST(Depthwise, FollowsItsDefinitionInEveryTypeFilterAndStride) {
  at::manual_seed(1);
  for (const DepthwiseShape& shape :
       depthwise_shapes(2, {1, 3, 8, 24, 40}, {{1, 1}, {2, 2}, {7, 5}, {11, 13}}))
    ASSERT_NO_FATAL_FAILURE(expect_definition(shape));
}

TEST(Depthwise, TakesAnyPaddingLessThanTheFilter) {
  at::manual_seed(1);
  for (const int filter : {3, 5})
    for (const int stride : {1, 2})
      for (std::int64_t padding = 0; padding < filter; ++padding)
        ASSERT_NO_FATAL_FAILURE(
            expect_definition({.images = 1,
                               .channels = 6,
                               .rows = padded_axis(9, filter, stride, padding),
                               .columns = padded_axis(6, filter, stride, filter - 1 - padding),
                               .filter = filter,
                               .stride = stride}));
}

TEST(Depthwise, GivesAZeroWeightGradientWithoutImages) {
  const DepthwiseShape shape = {.images = 0, .channels = 5};
  std::vector<float> gradient(5 * 9, 7);
  cpu::depthwise_weight_gradient(shape, nullptr, nullptr, gradient.data());
  EXPECT_EQ(gradient, std::vector<float>(5 * 9, 0));
}

TEST(DepthwiseWork, CoversEveryRowAndColumnAndFillsALargeChip) {
  for (const DepthwiseShape& shape :
       depthwise_shapes(96, {32, 144, 1152}, {{1, 1}, {14, 14}, {112, 112}})) {
    const std::int64_t rows = shape.rows.output, columns = shape.columns.output;
    const StripCut cut = cut_into_strips(shape, rows, columns, {});
    EXPECT_GE(cut.columns * kStripColumns, columns);
    EXPECT_GE(cut.rows * cut.height, rows);
    EXPECT_LT((cut.rows - 1) * cut.height, rows) << "a strip without rows";
    EXPECT_EQ(cut.strips, 96 * cut.rows * cut.columns);
    EXPECT_EQ(std::int64_t{cut.packs} * channels_per_pack(shape), shape.channels);
    const WeightGradientWork work = weight_gradient_work(shape);
    const std::int64_t blocks = work.blocks * work.cut.groups;
    EXPECT_LE(blocks, 528) << described(shape);
    EXPECT_GE(blocks, rows * columns > 1000 ? 132 : 1) << described(shape);
    const std::int64_t scratch = depthwise_scratch(shape);
    EXPECT_LE(scratch * 4, std::int64_t{8} << 20) << described(shape);
    EXPECT_EQ(scratch == 0, work.blocks == 1) << described(shape);
  }
}

}  // namespace
}  // namespace triaccel::kernels
