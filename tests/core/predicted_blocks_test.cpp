#include "triaccel/core/predicted_blocks.h"

#include <gtest/gtest.h>

namespace triaccel {
namespace {

constexpr BlockMap map_of(std::int64_t images, std::int64_t channels, std::int64_t side) {
  return {.images = images, .channels = channels, .rows = side, .columns = side};
}

TEST(PredictedBlockBits, FallWithTheLevelAndByPredictionButNeverBelowOnePerValue) {
  const CoefficientBits bits = coefficient_bits(8, {56, 48, 40, 16, 8});
  for (int level = kFinestLevel; level < kCoarsestLevel; ++level)
    for (int kind = 0; kind < kPredictedKinds; ++kind)
      EXPECT_GE(predicted_block_bits(8, bits, level, kind),
                predicted_block_bits(8, bits, level + 1, kind));
  int planned = 0, fewest = 0;
  for (const std::uint8_t width : bits) {
    planned += width;
    fewest += width > 1 ? width - 1 : width;
  }
  EXPECT_EQ(predicted_block_bits(8, bits, 0, 0), planned);
  EXPECT_EQ(predicted_block_bits(8, bits, kCoarsestLevel, 0), fewest);
  EXPECT_GT(predicted_block_bits(8, bits, kCoarsestLevel, 3), kPredictionBits + 63);
}

TEST(PredictedLayout, LaysTilesBehindEachOther) {
  const CoefficientBits bits = coefficient_bits(8, {32, 32, 32, 32, 32});
  const PredictedLayout layout = predicted_layout(map_of(5, 3, 64), 8, bits, 0);  // 320 positions
  EXPECT_EQ(layout.tiles(), 6);
  EXPECT_EQ(layout.full.blocks, 256);
  EXPECT_EQ(layout.last.blocks, 64);
  EXPECT_EQ(layout.full.units, 32);
  EXPECT_EQ(layout.full.room, 256 * 64 * 4);
  EXPECT_EQ(layout.full.bytes(), 32 * 8 + (1 + 16 + 256 * 8 + 1) * 4);
  for (std::int64_t tile = 0; tile + 1 < layout.tiles(); ++tile)
    EXPECT_EQ(layout.offset(tile + 1) - layout.offset(tile), layout.tile(tile).bytes());
  EXPECT_EQ(layout.bytes(), 3 * layout.full.bytes() + 3 * layout.last.bytes());
  EXPECT_EQ(predicted_layout(map_of(0, 3, 64), 8, bits, 0).bytes(), 0);
}

TEST(PredictedLayout, LeavesRoomForOneBitLessPerValueAtLeast) {
  const CoefficientBits bits = coefficient_bits(4, {32, 32, 32, 32, 32});
  const auto room = [&](int saved) {
    return predicted_layout(map_of(4, 1, 32), 4, bits, saved).full.room;
  };
  EXPECT_EQ(room(0), 256 * 16 * 4);
  EXPECT_EQ(room(32), 256 * 16 * 4 * 7 / 8);
  EXPECT_EQ(room(64), 256 * 16 * 3);
  EXPECT_EQ(room(255), 256 * 16 * 3);
}

}  // namespace
}  // namespace triaccel
