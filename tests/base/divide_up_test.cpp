#include "triaccel/base/divide_up.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

namespace triaccel {
namespace {

TEST(DivideUp, CountsAPartThatIsNotFull) {
  EXPECT_EQ(divide_up(0, 4), 0);
  EXPECT_EQ(divide_up(1, 4), 1);
  EXPECT_EQ(divide_up(4, 4), 1);
  EXPECT_EQ(divide_up(5, 4), 2);
  EXPECT_EQ(divide_up(5, 1), 5);
}

TEST(DivideUp, TakesTheWiderType) {
  static_assert(std::is_same_v<decltype(divide_up(std::int64_t{1}, 4)), std::int64_t>);
  EXPECT_EQ(divide_up((std::int64_t{1} << 40) + 1, 2), (std::int64_t{1} << 39) + 1);
}

TEST(RoundUp, GivesTheNextMultiple) {
  EXPECT_EQ(round_up(0, 16), 0);
  EXPECT_EQ(round_up(1, 16), 16);
  EXPECT_EQ(round_up(16, 16), 16);
  EXPECT_EQ(round_up(17, 16), 32);
}

}  // namespace
}  // namespace triaccel
