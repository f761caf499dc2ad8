#include "triaccel/policies/memory/data_placement.h"

#include <gtest/gtest.h>

#include <limits>

namespace triaccel {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

TEST(LargestDataOnDevice, IsASmallPartOfTheBudgetOrAnythingWithoutOne) {
  EXPECT_EQ(largest_data_on_device(DataPlacement::Auto, 6400), 100);
  EXPECT_EQ(largest_data_on_device(DataPlacement::Auto, 6463), 100);
  EXPECT_EQ(largest_data_on_device(DataPlacement::Auto, 63), 0);
  EXPECT_EQ(largest_data_on_device(DataPlacement::Auto, 0), kUnlimited);
}

TEST(LargestDataOnDevice, IsWhatTheUserSaysWhateverTheBudget) {
  for (const std::int64_t budget : {0, 1, 1000}) {
    EXPECT_EQ(largest_data_on_device(DataPlacement::Device, budget), kUnlimited);
    EXPECT_EQ(largest_data_on_device(DataPlacement::Host, budget), 0);
  }
}

}  // namespace
}  // namespace triaccel
