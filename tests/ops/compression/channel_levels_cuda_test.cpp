#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "triaccel/ops/compression/codec_map.h"
#include "triaccel/ops/compression/group_codec.h"

namespace triaccel {
namespace {

TEST(ChannelLevelsOnCuda, AreTheBitsOfTheCpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const at::MemoryFormat format :
         {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
      for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
               {96, 512, 1, 1}, {5, 130, 2, 2}, {2, 3, 3, 1}, {1, 8, 1, 2}, {1000, 33, 3, 3}}) {
        const at::Tensor scales = at::pow(10.0, at::linspace(-6, 3, sizes[1])).view({1, -1, 1, 1});
        at::Tensor map = (at::randn(sizes) * scales).to(type).contiguous(format);
        map.select(1, 0).fill_(2.5);
        const LevelledMap here = level_channels(map), there = level_channels(map.to(at::kCUDA));
        EXPECT_TRUE(at::equal(there.values.cpu(), here.values)) << at::IntArrayRef(sizes);
        EXPECT_TRUE(at::equal(there.lowest.cpu(), here.lowest)) << at::IntArrayRef(sizes);
        EXPECT_TRUE(at::equal(there.range.cpu(), here.range)) << at::IntArrayRef(sizes);
        const kernels::GroupCoding coding{.eighths = 28};
        const at::Tensor codes = encode_groups(here.values, coding);
        const at::Tensor mean = at::randn({sizes[1]}), weight = at::randn({sizes[1]});
        for (const bool norm : {false, true}) {
          const auto decoded = [&](const LevelledMap& by, at::Device on) {
            CodecMap with{.lowest = by.lowest, .range = by.range};
            if (norm) with.mean = with.bias = mean.to(on);
            if (norm) with.inverse_deviation = with.weight = weight.to(on);
            return decode_groups(codes.to(on), sizes, map.strides(), type, coding, with).cpu();
          };
          EXPECT_TRUE(at::equal(decoded(there, at::kCUDA), decoded(here, at::kCPU)))
              << at::IntArrayRef(sizes) << norm;
        }
      }
}

TEST(ChannelLevelsOnCuda, OfRowsAreTheBitsOfTheCpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  at::manual_seed(4);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
             {96, 17, 384}, {3, 5, 64}, {130, 33}, {9, 7, 7, 96}, {1, 5}, {1000, 30}}) {
      const std::int64_t columns = sizes.back();
      const std::int64_t count = c10::multiply_integers(sizes) / columns;
      const at::Tensor scales = at::pow(10.0, at::linspace(-6, 3, count)).view({-1, 1});
      at::Tensor rows = at::randn({count, columns}) * scales;
      rows[0].fill_(2.5);
      rows = rows.to(type).view(sizes);
      const LevelledMap here = level_rows(rows), there = level_rows(rows.to(at::kCUDA));
      EXPECT_TRUE(at::equal(there.values.cpu(), here.values)) << at::IntArrayRef(sizes);
      EXPECT_TRUE(at::equal(there.lowest.cpu(), here.lowest)) << at::IntArrayRef(sizes);
      EXPECT_TRUE(at::equal(there.range.cpu(), here.range)) << at::IntArrayRef(sizes);
      const kernels::GroupCoding coding{.eighths = 28};
      const at::Tensor codes = encode_groups(here.values, coding);
      const at::Tensor mean = at::randn({count}), weight = at::randn({columns});
      for (const bool norm : {false, true}) {
        const auto decoded = [&](const LevelledMap& by, at::Device on) {
          CodecMap with{.lowest = by.lowest, .range = by.range, .by_rows = true};
          if (norm) with.mean = with.inverse_deviation = mean.to(on);
          if (norm) with.weight = with.bias = weight.to(on);
          return decode_groups(codes.to(on), sizes, rows.strides(), type, coding, with).cpu();
        };
        EXPECT_TRUE(at::equal(decoded(there, at::kCUDA), decoded(here, at::kCPU)))
            << at::IntArrayRef(sizes) << norm;
      }
    }
}

}  // namespace
}  // namespace triaccel
