#include <gtest/gtest.h>

#include "triaccel/policies/memory/memory_model.h"

namespace triaccel {
namespace {

TEST(MemoryBand, IsSharesOfTheRoom) {
  const MemoryBand band = memory_band(1000, 900, {.measurement_noise = 0});
  EXPECT_DOUBLE_EQ(band.room, 100);
  EXPECT_DOUBLE_EQ(band.grow_to, 985);
  EXPECT_DOUBLE_EQ(band.shrink_above, 993);
  EXPECT_DOUBLE_EQ(band.steady_gap, 3);
}

TEST(MemoryBand, LeavesSpaceForTheGaugeWhereTheSharesLeaveLess) {
  const MemoryBand wide = memory_band(1000, 0, {});
  EXPECT_DOUBLE_EQ(wide.grow_to, 850);
  EXPECT_DOUBLE_EQ(wide.shrink_above, 930);
  EXPECT_DOUBLE_EQ(wide.steady_gap, 30);
  const MemoryBand narrow = memory_band(1000, 900, {});
  EXPECT_DOUBLE_EQ(narrow.apart, 20);
  EXPECT_DOUBLE_EQ(narrow.shrink_above, 980);
  EXPECT_DOUBLE_EQ(narrow.grow_to, 960);
  EXPECT_DOUBLE_EQ(narrow.steady_gap, 20);
}

TEST(MemoryBand, HasNoRoomWhereFixedBytesFillTheLimit) {
  EXPECT_DOUBLE_EQ(memory_band(1000, 1200, {}).room, 0);
}

TEST(MemoryModel, AssumesTheSteepestLineFromOneSize) {
  MemoryModel model;
  model.add(10, 1000, 1);
  const MemoryLine line = model.line_at(10, 400, 0.01);
  EXPECT_TRUE(line.guessed);
  EXPECT_DOUBLE_EQ(line.bytes, 1000);
  EXPECT_DOUBLE_EQ(line.slope, 60);
  EXPECT_DOUBLE_EQ(line.steepest, 61) << "the gauge may have read too little";
}

TEST(MemoryModel, FitsALineThroughSeveralSizes) {
  MemoryModel model;
  for (std::int64_t pass : {8, 16, 32}) model.add(pass, 500.0 + 10.0 * double(pass), pass);
  const MemoryLine line = model.line_at(32, 0, 0);
  EXPECT_FALSE(line.guessed);
  EXPECT_NEAR(line.slope, 10, 1e-9);
  EXPECT_NEAR(line.steepest, 10, 1e-9);
  EXPECT_GT(model.line_at(32, 0, 0.01).steepest, 10) << "a noisy gauge leaves doubt";
}

TEST(MemoryModel, NeverBelievesInANegativeSlope) {
  MemoryModel model;
  model.add(8, 1000, 1);
  model.add(16, 900, 2);
  EXPECT_EQ(model.line_at(16, 0, 0).slope, 0);
}

TEST(MemoryModel, TakesRisesAtOnceAndFallsSlowly) {
  MemoryModel model;
  model.add(8, 100, 1);
  model.add(8, 104, 2);
  EXPECT_DOUBLE_EQ(model.line_at(8, 0, 0).bytes, 104);
  model.add(8, 100, 3);
  EXPECT_GT(model.line_at(8, 0, 0).bytes, 101);
}

TEST(MemoryModel, MovesEverySizeWhenANeighbourTakesOrGivesMemory) {
  MemoryModel model;
  model.add(8, 180, 1);
  model.add(16, 260, 2);
  model.add(16, 460, 3);
  EXPECT_DOUBLE_EQ(model.line_at(16, 0, 0).bytes, 460);
  EXPECT_DOUBLE_EQ(model.line_at(8, 0, 0).bytes, 380);
  model.forbid(24, 3, 100);
  model.add(8, 180, 4);
  EXPECT_DOUBLE_EQ(model.line_at(8, 0, 0).bytes, 180);
  EXPECT_DOUBLE_EQ(model.line_at(16, 0, 0).slope, 10);
  EXPECT_EQ(model.forbidden(), 0) << "a failed size may fit now";
}

TEST(MemoryModel, KnowsWhichSizesWereMeasuredAsTooLarge) {
  MemoryModel model;
  model.add(24, 570, 1);
  model.add(32, 720, 2);
  model.add(64, 820, 3);  // no line
  model.add(16, 430, 4);
  EXPECT_EQ(model.too_large_above(16, 560, 0), 24);
  EXPECT_EQ(model.too_large_above(16, 600, 0), 32);
  EXPECT_EQ(model.too_large_above(16, 600, 3), 64) << "what is long ago counts no more";
  EXPECT_EQ(model.too_large_above(16, 900, 0), 0);
}

TEST(MemoryModel, ForgetsTheSizeNotSeenForLongest) {
  MemoryModel model;
  model.add(8, 1e9, 1);  // what does not fit the others
  for (std::int64_t pass : {16, 24, 32, 40}) model.add(pass, 10.0 * double(pass), pass);
  EXPECT_NEAR(model.line_at(40, 0, 0).slope, 10, 1e-9);
}

TEST(MemoryModel, ForbidsASizeUntilItsTimeIsUpAndTwiceAsLongTheNextTime) {
  MemoryModel model;
  model.forbid(64, 10, 100);
  model.forbid(32, 10, 100);
  model.forgive(1000, 1000, 11);
  EXPECT_EQ(model.forbidden(), 32);
  model.forgive(1000, 1000, 110);
  EXPECT_EQ(model.forbidden(), 0);
  model.forbid(32, 200, 100);
  model.forgive(1000, 1000, 399);
  EXPECT_EQ(model.forbidden(), 32);
  model.forgive(1000, 1000, 400);
  EXPECT_EQ(model.forbidden(), 0);
  EXPECT_TRUE(model.ever_failed());
}

TEST(MemoryModel, ForgivesWhenTheLimitRisesOrTheSizeRuns) {
  MemoryModel model;
  model.forbid(32, 10, 100);
  model.forgive(1000, 1000, 11);
  model.forgive(1010, 1000, 12);
  EXPECT_EQ(model.forbidden(), 32);
  model.forgive(1100, 1000, 13);
  EXPECT_EQ(model.forbidden(), 0);
  EXPECT_FALSE(model.ever_failed());
  model.forbid(32, 14, 100);
  model.add(32, 500, 15);
  EXPECT_EQ(model.forbidden(), 0);
}

}  // namespace
}  // namespace triaccel
