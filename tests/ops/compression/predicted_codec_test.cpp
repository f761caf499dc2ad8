#include "triaccel/ops/compression/predicted_codec.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/core/frequency_bands.h"

namespace triaccel {
namespace {

TEST(PredictedCodecOp, GivesATensorBackInTheBytesThatItsPlanTells) {
  at::manual_seed(3);
  const at::Tensor tile = at::randn({1, 4, 8, 8}).repeat({2, 1, 8, 8});
  const FrequencyCoding coding{.block = 8, .band_eighths = {56, 48, 40, 32, 32}};
  const SavedPlan plan{.codec = SavedCodec::Frequency,
                       .block = 8,
                       .band_eighths = coding.band_eighths,
                       .predicted = 50};
  for (const at::Tensor& values :
       {tile, tile.contiguous(at::MemoryFormat::ChannelsLast), tile.to(at::kBFloat16)}) {
    const at::Tensor counts = prediction_counts(at::kCPU);
    const at::Tensor codes = encode_predicted(values, coding, plan.predicted, counts);
    EXPECT_EQ(codes.numel(), frequency_bytes(plan, values.sizes()));
    EXPECT_LT(codes.numel(), encode_frequency(values, coding).numel());
    const PredictionCounts found = counted_predictions(counts);
    EXPECT_EQ(found.blocks, 2 * 4 * 64);
    EXPECT_GT(found.predicted, found.blocks / 2);
    const at::Tensor back = decode_predicted(codes, values.sizes(), values.strides(),
                                             values.scalar_type(), coding, plan.predicted);
    EXPECT_EQ(back.strides(), values.strides());
    EXPECT_LT((back.to(at::kFloat) - values.to(at::kFloat)).abs().max().item<float>(), 0.5f);
  }
}

TEST(PredictedCodecOp, RefusesWhatItDoesNotCode) {
  EXPECT_FALSE(can_encode_predicted(at::randn({2, 17, 8})));  // a first token apart: two maps
  EXPECT_THROW(encode_predicted(at::randn({2, 17, 8}), {.band_eighths = {8}}, 9), UsageError);
  EXPECT_THROW(encode_predicted(at::randn({1, 1, 8, 8}),
                                {.band_eighths = {8}, .rounding = kernels::Rounding::Nearest}, 9),
               UsageError);
  EXPECT_THROW(encode_predicted(at::randn({1, 1, 8, 8}), {.band_eighths = {8}}, 9, at::zeros({4})),
               UsageError);
}

}  // namespace
}  // namespace triaccel
