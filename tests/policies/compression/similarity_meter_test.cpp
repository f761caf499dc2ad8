#include "triaccel/policies/compression/similarity_meter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/policies/compression/saved_network.h"

namespace triaccel {
namespace {

TEST(HasChanged, SeesATenthAndNotLess) {
  const SavedStatistics before = saved_tensor(SavedClass::NormInput, 8, 16, 0.01);
  EXPECT_FALSE(has_changed(sketch_of(before), sketch_of(before)));
  const auto moved = [&](auto change) {
    SavedStatistics now = before;
    change(now);
    return has_changed(sketch_of(before), sketch_of(now));
  };
  EXPECT_FALSE(moved([](auto& t) { t.transforms[1].bands[1].mean_square *= 1.15; }));
  EXPECT_TRUE(moved([](auto& t) { t.transforms[1].bands[1].mean_square *= 1.3; }));
  EXPECT_TRUE(moved([](auto& t) { t.transforms[2].bands[0].squared_range *= 0.7; }));
  EXPECT_TRUE(moved([](auto& t) { t.nonzero_share = 0.8; }));
  EXPECT_TRUE(moved([](auto& t) { t.transforms[0].bands[0].mean_square = NAN; }));
  EXPECT_FALSE(moved([](auto& t) { t.transforms[1].bands[4].mean_square = 1e-9; }))
      << "noise compared with the rest";
}

TEST(UnchangedTensors, AreNoneOfAnotherNetwork) {
  const std::vector<SavedStatistics> tensors = saved_resnet(2);
  std::vector<SavedSketch> sketches;
  for (const SavedStatistics& tensor : tensors) sketches.push_back(sketch_of(tensor));
  EXPECT_EQ(unchanged_tensors(sketches, tensors), std::vector<bool>(tensors.size(), true));
  sketches.pop_back();
  EXPECT_EQ(unchanged_tensors(sketches, tensors), std::vector<bool>(tensors.size(), false));
}

BlockTest test_with(double hits, double saved) {
  return {.blocks = 1000,
          .verified = static_cast<std::int64_t>(1000 * hits),
          .plain_bytes = 10'000,
          .predicted_bytes = static_cast<std::int64_t>(10'000 * (1 - saved))};
}

TEST(BlockMeter, GoesOnWhenBothSharesPayAndOffAfterThreeFailures) {
  BlockMeter meter = after_test({}, test_with(0.3, 0.05), {});
  EXPECT_EQ(meter.reuse, BlockReuse::On);
  for (const double saved : {-0.2, -0.2, -0.2})
    meter = after_test(meter, test_with(0.3, saved), {});
  EXPECT_EQ(meter.reuse, BlockReuse::Off);
  EXPECT_EQ(after_test(meter, test_with(0.9, 0.5), {}), meter) << "no tests any more";
  EXPECT_EQ(after_change(meter).reuse, BlockReuse::Testing);
  EXPECT_EQ(after_test(after_change(meter), test_with(0.9, 0.5), {}).reuse, BlockReuse::On);
}

TEST(BlockMeter, StaysOffWhereHitsAreRareOrSaveNothing) {
  for (const BlockTest& test : {test_with(0.05, 0.05), test_with(0.5, 0.01)}) {
    BlockMeter meter;
    for (int i = 0; i < 2; ++i) meter = after_test(meter, test, {});
    EXPECT_EQ(meter.reuse, BlockReuse::Testing);
    EXPECT_EQ(after_test(meter, test, {}).reuse, BlockReuse::Off);
  }
  EXPECT_EQ(after_test({}, {}, {}), BlockMeter{}) << "nothing was tested";
}

TEST(BlockMeter, ForgivesOneBadTest) {
  BlockMeter meter;
  for (int i = 0; i < 5; ++i) meter = after_test(meter, test_with(0.4, 0.1), {});
  meter = after_test(meter, test_with(0.1, 0.0), {});
  EXPECT_EQ(meter.reuse, BlockReuse::On);
  EXPECT_EQ(meter.failures, 0) << "the averages are still above";
}

}  // namespace
}  // namespace triaccel
