#include "bench/papers/baseline_codecs/baseline_codec.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace triaccel {
namespace {

constexpr Baseline kBaselines[] = {Baseline::Bf16, Baseline::Actnn, Baseline::Gact,
                                   Baseline::Division};

TEST(BaselineCodecOp, GivesBackSizesStridesAndTypeFromItsBytes) {
  at::manual_seed(3);
  const at::Tensor map = at::randn({2, 5, 9, 12});
  for (const Baseline codec : kBaselines)
    for (const at::Tensor& values :
         {map, map.contiguous(at::MemoryFormat::ChannelsLast), map.to(at::kBFloat16),
          map.to(at::kHalf), map.select(2, 0).contiguous(), at::randn({3, 64, 1, 1}),
          at::randn({7, 300}), at::randn({}), at::randn({0, 4, 8, 8})}) {
      const at::Tensor codes = encode_baseline(values, {.codec = codec});
      const at::IntArrayRef sizes = values.sizes();
      EXPECT_EQ(codes.numel(), baseline_bytes(codec, {sizes.data(), sizes.size()}));
      const at::Tensor found =
          decode_baseline(codes, sizes, values.strides(), values.scalar_type(), {.codec = codec});
      EXPECT_EQ(found.sizes(), sizes);
      EXPECT_EQ(found.strides(), values.strides());
      EXPECT_EQ(found.scalar_type(), values.scalar_type());
      EXPECT_TRUE(at::allclose(found, values, 0.1, codec == Baseline::Bf16 ? 0 : 3.5))
          << name_of(codec) << " of " << sizes;
    }
}

TEST(BaselineCodecOp, RoundsToBf16) {
  const at::Tensor values = at::randn({64, 3}).t();
  const at::Tensor codes = encode_baseline(values, {.codec = Baseline::Bf16});
  EXPECT_TRUE(at::equal(decode_baseline(codes, values.sizes(), values.strides(), at::kFloat,
                                        {.codec = Baseline::Bf16}),
                        values.to(at::kBFloat16).to(at::kFloat)));
}

}  // namespace
}  // namespace triaccel
