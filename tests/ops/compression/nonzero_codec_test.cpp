#include "triaccel/ops/compression/nonzero_codec.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/compression/mask_codecs.h"

namespace triaccel {
namespace {

at::Tensor decoded(const EncodedNonZeros& codes, const at::Tensor& like,
                   const kernels::NonZeroCoding& coding) {
  return decode_nonzeros(codes, like.sizes(), like.strides(), like.scalar_type(), coding);
}

TEST(NonZeroCodecOp, GivesBackSizesStridesTypeAndZeros) {
  at::manual_seed(3);
  const at::Tensor map = at::randn({2, 5, 17, 16}).relu();
  for (const at::Tensor& values :
       {map, map.contiguous(at::MemoryFormat::ChannelsLast), map.permute({3, 1, 0, 2}),
        map.to(at::kBFloat16), map.to(at::kHalf), at::randn({3000}), at::ones({}),
        at::zeros({50, 50}), at::randn({0, 4})}) {
    const kernels::NonZeroCoding coding = {.eighths = 48};
    const at::Tensor found = decoded(encode_nonzeros(values, coding), values, coding);
    EXPECT_EQ(found.sizes(), values.sizes());
    EXPECT_EQ(found.strides(), values.strides());
    EXPECT_EQ(found.scalar_type(), values.scalar_type());
    EXPECT_TRUE(at::allclose(found, values, 0.01, 0.08));
    EXPECT_TRUE(at::equal(found.eq(0), values.eq(0)));
  }
}

TEST(NonZeroCodecOp, SharesTheMaskOfARelu) {
  const at::Tensor values = at::randn({4, 3, 9, 9}).relu();
  const at::Tensor mask = encode_mask(values, kernels::MaskTest::Positive);
  const EncodedNonZeros shared = encode_nonzeros(values, {}, mask),
                        own = encode_nonzeros(values, {});
  EXPECT_TRUE(shared.mask.is_same(mask));
  EXPECT_TRUE(at::equal(own.mask, mask));
  EXPECT_TRUE(at::equal(own.records, shared.records));
}

TEST(NonZeroCodecOp, TakesTheBytesThatItsPlanSays) {
  for (const int eighths : {8, 19, 64})
    EXPECT_EQ(encode_nonzeros(at::randn({3000}), {.eighths = eighths}).records.numel(),
              nonzero_bytes(3000, eighths));
  EXPECT_EQ(nonzero_bytes(1 << 20, 16), (1 << 18) + (1 << 14));
}

TEST(NonZeroCodecOp, CountsGroupsThatAreNotFinite) {
  const at::Tensor values = at::randn({1000}), count = at::zeros({1}, at::kInt);
  values[3] = NAN;
  values[999] = INFINITY;
  const EncodedNonZeros codes = encode_nonzeros(values, {}, {}, count);
  EXPECT_EQ(count.item<int>(), 2);
  EXPECT_EQ(decoded(codes, values, {}).isnan().sum().item<int>(), 128 + 1000 - 7 * 128);
}

TEST(NonZeroCodecOp, RejectsWhatItCannotStore) {
  const at::Tensor values = at::randn({8, 8});
  EXPECT_THROW(encode_nonzeros(values, {.eighths = 7}), UsageError);
  EXPECT_THROW(encode_nonzeros(values, {.eighths = 65}), UsageError);
  EXPECT_THROW(encode_nonzeros(values.slice(1, 0, 8, 2), {}), UsageError);
  EXPECT_THROW(encode_nonzeros(values.to(at::kLong), {}), UsageError);
  EXPECT_THROW(encode_nonzeros(values, {}, at::zeros({1}, at::kInt)), UsageError);
  EXPECT_THROW(encode_nonzeros(values, {}, {}, at::zeros({1})), UsageError);
  const EncodedNonZeros codes = encode_nonzeros(values, {});
  EXPECT_THROW(decode_nonzeros(codes, {8, 8}, {8, 1}, at::kFloat, {.eighths = 24}), UsageError);
  EXPECT_THROW(decode_nonzeros(codes, {8, 8}, {16, 1}, at::kFloat, {}), UsageError);
}

}  // namespace
}  // namespace triaccel
