#include "triaccel/ops/compression/group_codec.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

at::Tensor round_trip(const at::Tensor& values, const kernels::GroupCoding& coding) {
  return decode_groups(encode_groups(values, coding), values.sizes(), values.strides(),
                       values.scalar_type(), coding);
}

TEST(GroupCodecOp, GivesBackSizesStridesAndType) {
  at::manual_seed(3);
  const at::Tensor map = at::randn({2, 5, 7, 6});
  for (const at::Tensor& values :
       {map, map.contiguous(at::MemoryFormat::ChannelsLast), map.permute({3, 1, 0, 2}),
        map.to(at::kBFloat16), map.to(at::kHalf), at::randn({}), at::randn({0, 4})}) {
    const at::Tensor found = round_trip(values, {.eighths = 64});
    EXPECT_EQ(found.sizes(), values.sizes());
    EXPECT_EQ(found.strides(), values.strides());
    EXPECT_EQ(found.scalar_type(), values.scalar_type());
    EXPECT_TRUE(at::allclose(found, values, 0.02, 0.03));
  }
}

TEST(GroupCodecOp, CodesNeighboursInMemoryTogether) {
  // Channels that differ a thousandfold share groups only where they lie side by side.
  const at::Tensor map = at::randn({4, 2, 16, 16}) * at::tensor({1.0f, 1000.0f}).view({1, 2, 1, 1});
  const auto small_error = [](const at::Tensor& values) {
    return (round_trip(values, {.eighths = 32}) - values).select(1, 0).abs().max().item<float>();
  };
  EXPECT_LT(small_error(map), 1.0f);
  EXPECT_GT(small_error(map.contiguous(at::MemoryFormat::ChannelsLast)), 50.0f);
}

TEST(GroupCodecOp, TakesTheBytesThatItsPlanSays) {
  for (const int eighths : {8, 19, 64})
    EXPECT_EQ(encode_groups(at::randn({3000}), {.eighths = eighths}).numel(),
              group_bytes(3000, eighths));
  EXPECT_EQ(group_bytes(1 << 20, 16), (1 << 18) + (1 << 14));
}

TEST(GroupCodecOp, CountsGroupsThatAreNotFinite) {
  const at::Tensor values = at::randn({1000}), count = at::zeros({1}, at::kInt);
  values[3] = NAN;
  values[999] = INFINITY;
  encode_groups(values, {}, count);
  EXPECT_EQ(count.item<int>(), 2);
}

TEST(GroupCodecOp, RejectsWhatItCannotStore) {
  const at::Tensor values = at::randn({8, 8});
  EXPECT_THROW(encode_groups(values, {.eighths = 7}), UsageError);
  EXPECT_THROW(encode_groups(values, {.eighths = 65}), UsageError);
  EXPECT_THROW(encode_groups(values.slice(1, 0, 8, 2), {}), UsageError);
  EXPECT_THROW(encode_groups(values.to(at::kLong), {}), UsageError);
  EXPECT_THROW(encode_groups(values, {}, at::zeros({1})), UsageError);
  const at::Tensor codes = encode_groups(values, {});
  EXPECT_THROW(decode_groups(codes, {8, 8}, {8, 1}, at::kFloat, {.eighths = 24}), UsageError);
  EXPECT_THROW(decode_groups(codes, {8, 8}, {16, 1}, at::kFloat, {}), UsageError);
}

}  // namespace
}  // namespace triaccel
