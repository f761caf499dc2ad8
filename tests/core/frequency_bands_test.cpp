#include "triaccel/core/frequency_bands.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

using Eighths = std::array<std::uint8_t, kFrequencyBands>;
using Sizes = std::vector<std::int64_t>;

int sum_of(const CoefficientBits& bits) { return std::accumulate(bits.begin(), bits.end(), 0); }

/// Plans from nothing to everything, with all kinds of fractions.
std::vector<Eighths> plans() {
  std::vector<Eighths> plans = {{0, 0, 0, 0, 0}, {64, 64, 64, 64, 64}, {8, 0, 0, 0, 1}};
  for (int i = 0; i < 400; ++i) {
    const auto eighths = [&](int factor) { return static_cast<std::uint8_t>(i * factor % 65); };
    plans.push_back({eighths(7), eighths(11), eighths(13), eighths(17), eighths(29)});
  }
  return plans;
}

TEST(FrequencyBands, HaveTheSizesOfTheirFrequencies) {
  const auto sizes = [](int block) {
    std::vector<int> all;
    for (int band = 0; band < kFrequencyBands; ++band) all.push_back(band_size(block, band));
    return all;
  };
  EXPECT_EQ(sizes(8), (std::vector<int>{1, 5, 9, 21, 28}));
  EXPECT_EQ(sizes(7), (std::vector<int>{1, 5, 9, 13, 21}));
  EXPECT_EQ(sizes(4), (std::vector<int>{1, 2, 3, 4, 6}));
}

TEST(CoefficientAt, NamesEveryCoefficientOnceTheFirstOneFirst) {
  for (const int block : {8, 7, 4}) {
    std::set<int> named;
    for (int place = 0; place < coefficients_of(block); ++place) {
      const CoefficientPlace at = coefficient_at(block, place);
      named.insert(at.row * block + at.column);
    }
    EXPECT_EQ(static_cast<int>(named.size()), coefficients_of(block));
    EXPECT_EQ(*named.rbegin(), coefficients_of(block) - 1);
    EXPECT_EQ(band_at(block, 0), 0);
  }
}

TEST(CoefficientBits, AddUpToWhatBandsAskForInWholeBytes) {
  for (const int block : {8, 7, 4})
    for (Eighths eighths : plans()) {
      const int found = sum_of(coefficient_bits(block, eighths));
      eighths[0] = std::max<std::uint8_t>(eighths[0], 8);
      int asked = 0;
      for (int band = 0; band < kFrequencyBands; ++band) {
        const int size = band_size(block, band), e = eighths[static_cast<std::size_t>(band)];
        asked += size * (e / 8) + (size * (e % 8) + 4) / 8;
      }
      EXPECT_EQ(found * blocks_of_chunk(block) % 8, 0);
      EXPECT_GE(found, asked);
      EXPECT_LT((found - asked) * blocks_of_chunk(block), 8);
    }
}

TEST(CoefficientBits, AreTheSameForFourNeighboursOfOneBand) {
  for (const int block : {8, 7})
    for (const Eighths& eighths : plans()) {
      const CoefficientBits bits = coefficient_bits(block, eighths);
      for (std::size_t place = 4; place + 4 <= static_cast<std::size_t>(coefficients_of(block));
           ++place) {
        if (place % 4 == 3) continue;
        ASSERT_EQ(bits[place], bits[place + 1]);
        ASSERT_EQ(band_at(block, static_cast<int>(place)),
                  band_at(block, static_cast<int>(place + 1)));
      }
    }
}

TEST(CoefficientBits, LeaveOutBandsThatAreDroppedButNeverTheFirst) {
  const CoefficientBits bits = coefficient_bits(8, {0, 16, 16, 16, 0});
  EXPECT_GE(bits[0], 1);
  for (int place = 0; place < 64; ++place)
    EXPECT_EQ(bits[static_cast<std::size_t>(place)] == 0, band_at(8, place) == 4) << place;
}

TEST(CoefficientBits, RejectOtherBlocksAndMoreThanEightBits) {
  EXPECT_THROW(coefficient_bits(5, {}), UsageError);
  EXPECT_THROW(coefficient_bits(8, {8, 8, 8, 8, 65}), UsageError);
}

TEST(BlockMaps, TakeMapsAsTheyLie) {
  const BlockMap dense = block_maps(Sizes{2, 3, 5, 7}).at(0);
  EXPECT_EQ(dense, (BlockMap{.images = 2,
                             .channels = 3,
                             .rows = 5,
                             .columns = 7,
                             .image_stride = 105,
                             .channel_stride = 35,
                             .row_stride = 7,
                             .column_stride = 1}));
}

TEST(BlockMaps, LayTokensOutAsASquare) {
  const std::vector<BlockMap> maps = block_maps(Sizes{6, 49, 10});
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0].rows, 7);
  EXPECT_EQ(maps[0].columns, 7);
  EXPECT_EQ(maps[0].row_stride, 70);
  EXPECT_EQ(maps[0].channel_stride, 1);
}

TEST(BlockMaps, SetTheFirstTokensApartWhereTheOthersAreASquare) {
  const std::vector<BlockMap> maps = block_maps(Sizes{16, 197, 10});
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[0].rows * maps[0].columns, 196);
  EXPECT_EQ(maps[0].offset, 10);
  EXPECT_EQ(maps[1].images * maps[1].rows * maps[1].columns, 16);
  EXPECT_EQ(maps[1].column_stride, 1970);
}

TEST(BlockMaps, FoldOtherCountsOfTokensAndLeaveWhatHasNone) {
  EXPECT_EQ(block_maps(Sizes{2, 40, 3}).at(0).columns, 8);
  EXPECT_EQ(block_maps(Sizes{2, 21, 3}).at(0).columns, 7);
  EXPECT_TRUE(block_maps(Sizes{2, 11, 3}).empty());
  EXPECT_TRUE(block_maps(Sizes{64, 10}).empty());
  EXPECT_TRUE(block_maps(Sizes{2, 3, 4, 5, 6}).empty());
}

TEST(FrequencyBytes, CountHeadersAndBits) {
  // 8 x 8 maps of 32 channels: a tile of 512 elements per lane at 2 bits, and 8 bytes for each
  // lane.
  const SavedPlan plan = {
      .codec = SavedCodec::Frequency, .block = 8, .band_eighths = {16, 16, 16, 16, 16}};
  EXPECT_EQ(frequency_bytes(plan, Sizes{8, 32, 8, 8}), 32 * (512 * 2 / 8 + 8));
  EXPECT_EQ(frequency_bytes(plan, Sizes{0, 32, 8, 8}), 0);
  EXPECT_THROW(frequency_bytes(plan, Sizes{64, 10}), UsageError);
}

TEST(FrequencyBytes, LeaveOutChunksThatNoLaneHas) {
  const SavedPlan plan = {
      .codec = SavedCodec::Frequency, .block = 4, .band_eighths = {16, 16, 16, 16, 16}};
  const std::int64_t chunk = 64 * 2 / 8;
  EXPECT_EQ(frequency_bytes(plan, Sizes{100, 64, 4, 4}), 8 * 32 * 8 + 64 * 25 * chunk);
  // A tile that has lanes of the last positions and of those before is full.
  EXPECT_EQ(frequency_bytes(plan, Sizes{36, 24, 4, 4}), 2 * 32 * 8 + 32 * (8 + 1) * chunk);
}

}  // namespace
}  // namespace triaccel
