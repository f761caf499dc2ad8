
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/ops/compression/codec_map.h"
#include "triaccel/ops/compression/group_codec.h"

namespace triaccel {
namespace {

using Sizes = std::vector<std::int64_t>;

at::Tensor by_channel(const at::Tensor& row) { return row.view({1, -1, 1, 1}); }

/// Channels of very different size and offset, the first of them constant.
at::Tensor uneven_map(const Sizes& sizes, at::ScalarType type, at::MemoryFormat format) {
  const at::Tensor scales = at::pow(10.0, at::linspace(-6, 3, sizes[1]));
  at::Tensor map = at::randn(sizes) * by_channel(scales) + by_channel(3 * scales);
  map.select(1, 0).fill_(2.5);
  return map.to(type).contiguous(format);
}

TEST(ChannelLevels, BringEveryChannelToZeroToOneAndBack) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const at::MemoryFormat format :
         {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
      for (const Sizes& sizes : {Sizes{96, 70, 1, 1}, Sizes{5, 130, 2, 2}, Sizes{2, 3, 3, 1},
                                 Sizes{1, 8, 1, 2}, Sizes{64, 512, 1, 1}}) {
        const at::Tensor map = uneven_map(sizes, type, format);
        const LevelledMap made = level_channels(map);
        EXPECT_EQ(made.values.strides(), map.strides());
        const at::Tensor wide = map.to(at::kFloat);
        const Sizes others{0, 2, 3};
        EXPECT_TRUE(at::equal(made.lowest, wide.amin(others)));
        EXPECT_TRUE(at::equal(made.range, wide.amax(others) - wide.amin(others)));
        const at::Tensor values = made.values.to(at::kFloat);
        EXPECT_TRUE(at::equal(values.select(1, 0), at::zeros_like(values.select(1, 0))));
        EXPECT_EQ(values.amin().item<float>(), 0.0f);
        EXPECT_LE(values.amax().item<float>(), 1.0f + 1e-6f);
        const at::Tensor back = by_channel(made.lowest) + by_channel(made.range) * values;
        const double unit = type == at::kFloat ? 1e-6 : type == at::kHalf ? 5e-4 : 4e-3;
        const at::Tensor error = (back - wide).abs() / by_channel(made.range.clamp_min(1e-30));
        EXPECT_LE(error.select(1, 1).amax().item<double>(), unit) << at::IntArrayRef(sizes);
        EXPECT_LE(error.amax().item<double>(), 2 * unit) << at::IntArrayRef(sizes);
      }
}

/// Rows of very different size and offset, the first of them constant.
at::Tensor uneven_rows(const Sizes& sizes, at::ScalarType type) {
  const std::int64_t rows = c10::multiply_integers(sizes) / sizes.back();
  const at::Tensor scales = at::pow(10.0, at::linspace(-6, 3, rows)).view({-1, 1});
  at::Tensor values = at::randn({rows, sizes.back()}) * scales + 3 * scales;
  values[0].fill_(2.5);
  return values.to(type).view(sizes);
}

TEST(ChannelLevels, BringEveryRowToZeroToOneAndBack) {
  at::manual_seed(3);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const Sizes& sizes :
         {Sizes{4, 17, 384}, Sizes{130, 33}, Sizes{2, 7, 7, 96}, Sizes{2, 5}}) {
      const at::Tensor rows = uneven_rows(sizes, type);
      const LevelledMap made = level_rows(rows);
      const at::Tensor wide = rows.to(at::kFloat).view({-1, sizes.back()});
      EXPECT_TRUE(at::equal(made.lowest, wide.amin(1)));
      EXPECT_TRUE(at::equal(made.range, wide.amax(1) - wide.amin(1)));
      const kernels::GroupCoding coding{.eighths = 64};
      const at::Tensor codes = encode_groups(made.values, coding);
      CodecMap map{.lowest = made.lowest, .range = made.range, .by_rows = true};
      const auto decoded = [&] {
        return decode_groups(codes, sizes, rows.strides(), at::kFloat, coding, map).view_as(wide);
      };
      const at::Tensor error = (decoded() - wide).abs() / (made.range.view({-1, 1}) + 1e-30);
      EXPECT_LE(error.slice(0, 1).max().item<double>(), 1.0 / 128) << at::IntArrayRef(sizes);
      EXPECT_EQ(error[0].max().item<double>(), 0.0);
      // With the layer norm behind it.
      const at::Tensor back = decoded();
      map.mean = at::randn({wide.size(0)});
      map.inverse_deviation = at::rand({wide.size(0)}) + 0.5;
      map.weight = at::randn({sizes.back()});
      map.bias = at::randn({sizes.back()});
      const at::Tensor wanted =
          (back - map.mean.view({-1, 1})) * map.inverse_deviation.view({-1, 1}) * map.weight +
          map.bias;
      EXPECT_TRUE(at::allclose(decoded(), wanted, 1e-4, 1e-4)) << at::IntArrayRef(sizes);
    }
}

TEST(ChannelLevels, SayWhereAChannelIsNotFinite) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    at::Tensor map = at::randn({8, 4, 2, 2});
    map[3][2][1][0] = value;
    const at::Tensor values = level_channels(map).values;
    EXPECT_TRUE(values.select(1, 2).isnan().any().item<bool>()) << value;
    for (const int other : {0, 1, 3})
      EXPECT_TRUE(values.select(1, other).isfinite().all().item<bool>()) << value;
  }
}

TEST(ChannelLevels, AreUndoneWhileGroupsAreDecodedBeforeANorm) {
  at::manual_seed(3);
  for (const at::MemoryFormat format :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor map = uneven_map({40, 72, 2, 2}, at::kFloat, format);
    const LevelledMap made = level_channels(map);
    const kernels::GroupCoding coding{.eighths = 64};
    const at::Tensor codes = encode_groups(made.values, coding);
    const auto decoded = [&](CodecMap with) {
      with.lowest = made.lowest;
      with.range = made.range;
      return decode_groups(codes, map.sizes(), map.strides(), at::kFloat, coding, with);
    };
    const at::Tensor back = decoded({});
    const at::Tensor error = (back - map).abs() / by_channel(made.range.clamp_min(1e-30));
    EXPECT_LE(error.amax().item<double>(), 0.51 / 255 * 1.01) << "of each channel's own range";
    const at::Tensor mean = map.mean(Sizes{0, 2, 3}), deviation = 1 / made.range.clamp_min(1);
    const at::Tensor weight = at::randn({72}), bias = at::randn({72});
    const at::Tensor wanted =
        (back - by_channel(mean)) * by_channel(weight * deviation) + by_channel(bias);
    EXPECT_TRUE(at::allclose(decoded({mean, deviation, weight, bias}), wanted, 1e-5, 1e-5));
  }
  EXPECT_THROW(decode_groups(encode_groups(at::ones({4, 8, 1, 1}), {}), {4, 8, 1, 1}, {8, 1, 1, 1},
                             at::kFloat, {}, {.lowest = at::ones({7}), .range = at::ones({8})}),
               UsageError);
}

TEST(ChannelLevels, TakeMapsOnly) {
  EXPECT_THROW(level_channels(at::ones({4, 8})), UsageError);
  EXPECT_THROW(level_rows(at::ones({8})), UsageError);
  EXPECT_THROW(level_rows(at::ones({4, 8}).t()), UsageError);
  EXPECT_THROW(level_channels(at::ones({4, 8, 2, 4}).slice(3, 0, 2)), UsageError);
}

}  // namespace
}  // namespace triaccel
