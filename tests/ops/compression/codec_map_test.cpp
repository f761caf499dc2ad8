#include "triaccel/ops/compression/codec_map.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/compression/frequency_codec.h"
#include "triaccel/ops/compression/group_codec.h"
#include "triaccel/ops/compression/mask_codecs.h"

namespace triaccel {
namespace {

/// What a map makes of [N, C, H, W], by ATen.
at::Tensor mapped(const at::Tensor& x, const CodecMap& map, const at::Tensor& open) {
  const auto shaped = [](const at::Tensor& row) { return row.view({1, -1, 1, 1}); };
  at::Tensor y = x;
  if (map.mean.defined())
    y = (x - shaped(map.mean)) * shaped(map.inverse_deviation * map.weight) + shaped(map.bias);
  if (map.activation == kernels::Activation::Silu) y = at::silu(y);
  if (map.activation == kernels::Activation::Relu) y = y * open;
  if (map.scales.defined()) y = y * map.scales.view({x.size(0), x.size(1), 1, 1});
  return y;
}

TEST(CodecMap, IsAppliedByBothCodecsInEitherOrderOfMemory) {
  at::manual_seed(3);
  const at::Tensor whole = at::randn({3, 12, 9, 14});
  const at::Tensor mean = at::randn({12}), deviation = at::rand({12}) + 0.5;
  const at::Tensor weight = at::randn({12}), bias = at::randn({12}), scales = at::rand({36});
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor values = whole.contiguous(format);
    const at::Tensor open = at::randn_like(values).gt(0);
    const at::Tensor gate = encode_mask(open, kernels::MaskTest::NotZero);
    for (const CodecMap& map :
         {CodecMap{mean, deviation, weight, bias},
          CodecMap{mean, deviation, weight, bias, kernels::Activation::Relu, gate},
          CodecMap{mean, deviation, weight, bias, kernels::Activation::Silu, {}, scales},
          CodecMap{.activation = kernels::Activation::Silu}, CodecMap{.scales = scales}}) {
      const kernels::GroupCoding groups{.eighths = 40};
      const at::Tensor by_groups = encode_groups(values, groups);
      const FrequencyCoding frequency{.block = 7, .band_eighths = {56, 48, 40, 40, 40}};
      const at::Tensor by_frequency = encode_frequency(values, frequency);
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const double tolerance = type == at::kFloat ? 1e-5 : 1e-2;
        const auto expect = [&](const at::Tensor& found, const at::Tensor& plain) {
          EXPECT_EQ(found.scalar_type(), type);
          EXPECT_EQ(found.strides(), values.strides());
          EXPECT_TRUE(
              at::allclose(found.to(at::kFloat), mapped(plain, map, open), tolerance, 1e-5));
        };
        expect(decode_groups(by_groups, values.sizes(), values.strides(), type, groups, map),
               decode_groups(by_groups, values.sizes(), values.strides(), at::kFloat, groups));
        expect(
            decode_frequency(by_frequency, values.sizes(), values.strides(), type, frequency, map),
            decode_frequency(by_frequency, values.sizes(), values.strides(), at::kFloat,
                             frequency));
      }
    }
  }
}

TEST(CodecMap, AppliesLayerNormsAndGeluToRows) {
  at::manual_seed(4);
  for (const std::int64_t channels : {48, 50}) {
    const at::Tensor values = at::randn({3, 17, channels}) * 3;
    const auto [ignored, mean, deviation] =
        at::native_layer_norm(values, {channels}, at::Tensor(), at::Tensor(), 1e-5);
    const at::Tensor weight = at::randn({channels}), bias = at::randn({channels});
    const kernels::GroupCoding coding{.eighths = 44};
    const at::Tensor codes = encode_groups(values, coding);
    const at::Tensor plain =
        decode_groups(codes, values.sizes(), values.strides(), at::kFloat, coding);
    for (const bool norm : {true, false})
      for (const kernels::Gelu gelu :
           {kernels::Gelu::None, kernels::Gelu::Erf, kernels::Gelu::Tanh})
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
          if (!norm && gelu == kernels::Gelu::None) continue;
          CodecMap map{.gelu = gelu};
          at::Tensor wanted = plain;
          if (norm) {
            map = {mean.view(-1), deviation.view(-1), weight, bias};
            map.by_rows = true;
            map.gelu = gelu;
            wanted = (plain - mean) * deviation * weight + bias;
          }
          if (gelu == kernels::Gelu::Erf) wanted = at::gelu(wanted);
          if (gelu == kernels::Gelu::Tanh) wanted = at::gelu(wanted, "tanh");
          const at::Tensor found =
              decode_groups(codes, values.sizes(), values.strides(), type, coding, map);
          EXPECT_EQ(found.scalar_type(), type);
          const double share = type == at::kFloat ? 1e-5 : 1e-2;
          EXPECT_TRUE(at::allclose(found.to(at::kFloat), wanted, share, 2e-6))
              << channels << " " << norm << " " << static_cast<int>(gelu);
        }
  }
}

TEST(CodecMap, KnowsWhichTensorsHaveRows) {
  EXPECT_EQ(row_order({2, 5, 8}, {40, 8, 1})->channels, 8);
  EXPECT_FALSE(row_order({2, 5, 8}, {40, 1, 5}));
  EXPECT_FALSE(row_order({0, 8}, {8, 1}));
}

TEST(CodecMap, KnowsWhichTensorsHaveChannels) {
  const at::Tensor map = at::empty({2, 5, 3, 4});
  const auto order = [](const at::Tensor& tensor) {
    return channel_order(tensor.sizes(), tensor.strides());
  };
  ASSERT_TRUE(order(map));
  EXPECT_EQ(order(map)->channel_stride, 12);
  EXPECT_EQ(order(map)->image_stride, 60);
  ASSERT_TRUE(order(map.contiguous(at::MemoryFormat::ChannelsLast)));
  EXPECT_EQ(order(map.contiguous(at::MemoryFormat::ChannelsLast))->channel_stride, 1);
  EXPECT_FALSE(order(map.permute({3, 1, 0, 2})));
  EXPECT_FALSE(order(map.slice(3, 0, 2)));
  EXPECT_FALSE(order(at::empty({5, 3, 4})));
}

TEST(CodecMap, RefusesWhatDoesNotFit) {
  const at::Tensor tokens = at::randn({2, 16, 8}), codes = encode_groups(tokens, {});
  EXPECT_THROW(decode_groups(codes, tokens.sizes(), tokens.strides(), at::kFloat, {},
                             {.activation = kernels::Activation::Silu}),
               UsageError);
  EXPECT_THROW(decode_frequency(encode_frequency(tokens, {.band_eighths = {8}}), tokens.sizes(),
                                tokens.strides(), at::kFloat, {.band_eighths = {8}},
                                {.gelu = kernels::Gelu::Erf}),
               UsageError);
  const at::Tensor map = at::randn({2, 6, 4, 4}), row = at::ones({6}), short_row = at::ones({5});
  EXPECT_THROW(decode_groups(encode_groups(map, {}), map.sizes(), map.strides(), at::kFloat, {},
                             {row, row, row, short_row}),
               UsageError);
}

}  // namespace
}  // namespace triaccel
