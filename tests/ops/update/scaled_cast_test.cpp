
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

/// Two layers, the second with scale 256.
at::Tensor two_scales() {
  at::Tensor scales = make_layer_scales(at::kCPU, 2);
  scales[1][0] = 256;
  return scales;
}

TEST(ScaledCast, ScalesByTheLayersOwnScaleThereAndBack) {
  const at::Tensor from = at::randn({3, 5, 7}), scales = two_scales();
  const at::Tensor half = scaled_cast(from, at::kHalf, scales, 1, false, true);
  EXPECT_TRUE(at::equal(half, (from * 256).to(at::kHalf)));
  EXPECT_EQ(scales[1][1].item<float>(), from.abs().max().item<float>());
  EXPECT_EQ(scales[0][1].item<float>(), 0) << "the other layer's maximum";
  const at::Tensor back = scaled_cast(half, at::kBFloat16, scales, 1, true, false);
  EXPECT_TRUE(at::equal(back, (half.to(at::kFloat) / 256).to(at::kBFloat16)));
}

TEST(ScaledCast, KeepsTheMemoryOrderOfDenseTensors) {
  const at::Tensor from = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor to = scaled_cast(from, at::kHalf, {}, 0, false, true);
  EXPECT_EQ(to.strides(), from.strides());
  EXPECT_TRUE(at::equal(to, from.to(at::kHalf)));
}

TEST(ScaledCast, ReadsTensorsWithGapsAndExpandedOnes) {
  const at::Tensor gaps = at::randn({6, 8}).slice(1, 0, 8, 2), one = at::randn({1, 4});
  EXPECT_TRUE(at::equal(scaled_cast(gaps, at::kHalf, {}, 0, false, false), gaps.to(at::kHalf)));
  const at::Tensor expanded = one.expand({5, 4});
  EXPECT_TRUE(
      at::equal(scaled_cast(expanded, at::kHalf, {}, 0, false, false), expanded.to(at::kHalf)));
}

TEST(ScaledCast, TakesEmptyTensors) {
  EXPECT_EQ(scaled_cast(at::empty({0, 3}), at::kHalf, two_scales(), 0, false, true).numel(), 0);
}

TEST(ScaledCast, RefusesWhatItCannotCast) {
  const at::Tensor from = at::ones({2}), scales = two_scales();
  EXPECT_THROW(scaled_cast({}, at::kHalf, scales, 0, false, false), UsageError);
  EXPECT_THROW(scaled_cast(from, at::kLong, scales, 0, false, false), UsageError);
  EXPECT_THROW(scaled_cast(from.to(at::kDouble), at::kHalf, scales, 0, false, false), UsageError);
  EXPECT_THROW(scaled_cast(from, at::kHalf, scales, 2, false, false), UsageError);
  EXPECT_THROW(scaled_cast(from, at::kHalf, scales, -1, false, false), UsageError);
  EXPECT_THROW(scaled_cast(from, at::kHalf, at::ones({2, 3}), 0, false, false), UsageError);
}

}  // namespace
}  // namespace triaccel
