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

}  // namespace
}  // namespace triaccel
