#include "triaccel/ops/compression/frequency_codec.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/core/frequency_bands.h"
#include "triaccel/ops/compression/group_codec.h"

namespace triaccel {
namespace {

constexpr std::array<std::uint8_t, kFrequencyBands> kAllBits = {64, 64, 64, 64, 64};

at::Tensor round_trip(const at::Tensor& values, const FrequencyCoding& coding) {
  return decode_frequency(encode_frequency(values, coding), values.sizes(), values.strides(),
                          values.scalar_type(), coding);
}

TEST(FrequencyCodecOp, GivesBackSizesStridesAndType) {
  at::manual_seed(3);
  const at::Tensor map = at::randn({2, 5, 9, 14});
  for (const int block : {8, 7, 4})
    for (const at::Tensor& values :
         {map, map.contiguous(at::MemoryFormat::ChannelsLast), map.permute({3, 1, 0, 2}),
          map.to(at::kBFloat16), map.to(at::kHalf), at::randn({3, 49, 20}), at::randn({16, 50, 6}),
          at::randn({2, 40, 6}), at::randn({0, 4, 8, 8})}) {
      const at::Tensor found = round_trip(values, {.block = block, .band_eighths = kAllBits});
      EXPECT_EQ(found.sizes(), values.sizes());
      EXPECT_EQ(found.strides(), values.strides());
      EXPECT_EQ(found.scalar_type(), values.scalar_type());
      EXPECT_TRUE(at::allclose(found, values, 0.02, 0.15)) << values.sizes();
    }
}

TEST(FrequencyCodecOp, GivesTheSameCodesForViewsAndCopies) {
  const at::Tensor all = at::randn({4, 12, 20, 20});
  const FrequencyCoding coding = {.block = 4, .band_eighths = {40, 30, 20, 16, 8}};
  for (const at::Tensor& view : {all.slice(2, 3, 17), all.slice(1, 0, 12, 3), all.transpose(2, 3)})
    EXPECT_TRUE(
        at::equal(encode_frequency(view, coding), encode_frequency(view.contiguous(), coding)));
}

TEST(FrequencyCodecOp, TakesTheBytesThatItsPlanSays) {
  const SavedPlan plan = {
      .codec = SavedCodec::Frequency, .block = 7, .band_eighths = {56, 30, 22, 14, 8}};
  const FrequencyCoding coding = {.block = plan.block, .band_eighths = plan.band_eighths};
  for (const at::Tensor& values : {at::randn({3, 40, 14, 14}), at::randn({8, 197, 24})})
    EXPECT_EQ(encode_frequency(values, coding).numel(), frequency_bytes(plan, values.sizes()));
}

TEST(FrequencyCodecOp, SpendsBitsOnSmoothMapsFarBetterThanGroups) {
  at::manual_seed(4);
  const at::Tensor smooth = at::upsample_bilinear2d(at::randn({4, 32, 5, 5}), {32, 32}, false);
  const auto error = [&](const at::Tensor& found) {
    return (found - smooth).pow(2).mean().item<double>();
  };
  const FrequencyCoding coding = {.block = 8, .band_eighths = {64, 40, 24, 8, 8}};
  const kernels::GroupCoding groups = {.eighths = 16};
  const at::Tensor codes = encode_frequency(smooth, coding);
  const at::Tensor group_codes = encode_groups(smooth, groups);
  EXPECT_LE(codes.numel(), group_codes.numel());
  EXPECT_LT(
      5 * error(round_trip(smooth, coding)),
      error(decode_groups(group_codes, smooth.sizes(), smooth.strides(), at::kFloat, groups)));
}

TEST(FrequencyCodecOp, CountsUnitsThatAreNotFinite) {
  const at::Tensor values = at::randn({8, 3, 8, 8}), count = at::zeros({1}, at::kInt);
  values[1][2][3][4] = NAN;
  values[0][0][0][0] = INFINITY;
  encode_frequency(values, {.band_eighths = kAllBits}, count);
  EXPECT_EQ(count.item<int>(), 2);
}

TEST(FrequencyCodecOp, RejectsWhatItCannotStore) {
  EXPECT_FALSE(can_encode_frequency(at::randn({8, 8})));
  EXPECT_FALSE(can_encode_frequency(at::zeros({2, 3, 8, 8}, at::kLong)));
  EXPECT_TRUE(can_encode_frequency(at::randn({2, 3, 8, 8})));
  const FrequencyCoding coding = {.band_eighths = kAllBits};
  EXPECT_THROW(encode_frequency(at::randn({8, 8}), coding), UsageError);
  EXPECT_THROW(encode_frequency({}, coding), UsageError);
  EXPECT_THROW(encode_frequency(at::zeros({2, 3, 8, 8}, at::kLong), coding), UsageError);
  EXPECT_THROW(encode_frequency(at::randn({2, 3, 8, 8}), {.block = 6}), UsageError);
  const at::Tensor codes = encode_frequency(at::randn({2, 3, 8, 8}), coding);
  EXPECT_THROW(decode_frequency(codes, {2, 3, 8, 16}, {384, 128, 16, 1}, at::kFloat, coding),
               UsageError);
  EXPECT_THROW(decode_frequency(codes, {2, 3, 8, 8}, {0, 0, 0, 1}, at::kFloat, coding), UsageError);
}

}  // namespace
}  // namespace triaccel
