#include "triaccel/policies/memory/data_placement.h"

#include <gtest/gtest.h>

#include <limits>

namespace triaccel {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

TEST(LargestDataOnDevice, IsAnEighthOfTheBudgetOrAnythingWithoutOne) {
  EXPECT_EQ(largest_data_on_device(DataPlacement::Auto, 800), 100);
  EXPECT_EQ(largest_data_on_device(DataPlacement::Auto, 807), 100);
  EXPECT_EQ(largest_data_on_device(DataPlacement::Auto, 7), 0);
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
