#include "triaccel/ops/predicted_codec.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(PredictedCodecOp, GivesATensorBackInFewerBytesWhereItsBlocksRepeat) {
  at::manual_seed(3);
  const at::Tensor tile = at::randn({1, 4, 8, 8}).repeat({2, 1, 8, 8});
  const FrequencyCoding coding{.block = 8, .band_eighths = {56, 48, 40, 32, 32}};
  for (const at::Tensor& values :
       {tile, tile.contiguous(at::MemoryFormat::ChannelsLast), tile.to(at::kBFloat16)}) {
    kernels::PredictionCounts counts = {};
    const at::Tensor codes = encode_predicted(values, coding, counts);
    EXPECT_LT(codes.numel(), encode_frequency(values, coding).numel());
    EXPECT_GT(counts.predicted, counts.blocks / 2);
    const at::Tensor found =
        decode_predicted(codes, values.sizes(), values.strides(), values.scalar_type(), coding);
    EXPECT_EQ(found.strides(), values.strides());
    EXPECT_LT((found.to(at::kFloat) - values.to(at::kFloat)).abs().max().item<float>(), 0.5f);
  }
}

TEST(PredictedCodecOp, RefusesWhatItDoesNotCode) {
  kernels::PredictionCounts counts = {};
  EXPECT_FALSE(codes_predicted(at::randn({2, 17, 8})));  // a first token apart: two maps
  EXPECT_THROW(encode_predicted(at::randn({2, 17, 8}), {.band_eighths = {8}}, counts), UsageError);
  EXPECT_THROW(
      encode_predicted(at::randn({1, 1, 8, 8}),
                       {.band_eighths = {8}, .rounding = kernels::Rounding::Nearest}, counts),
      UsageError);
}

}  // namespace
}  // namespace triaccel
