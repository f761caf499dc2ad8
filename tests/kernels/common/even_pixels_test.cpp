#include "triaccel/kernels/common/even_pixels.h"

#include <gtest/gtest.h>

#include <limits>

#include "triaccel/kernels/common/fast_divide.cuh"

namespace triaccel::kernels {
namespace {

/// The GPU's index, which divides by multiplication, compared with the CPU's.
TEST(EvenPixelIndex, IsTheSameWithBothDivisions) {
  for (const EvenPixels& pixels :
       {EvenPixels{2, 5, 7}, EvenPixels{3, 1, 1}, EvenPixels{1, 32, 32}, EvenPixels{7, 3, 64}}) {
    const EvenPixelIndex<std::int64_t, PlainDivide> plain(pixels);
    const EvenPixelIndex<std::int32_t, cuda::FastDivide> fast(pixels);
    std::int64_t even = 0;
    for (std::int64_t i = 0; i < pixels.all(); ++i) {
      const std::int64_t row = i / pixels.width;
      const bool is_even = row % pixels.height % 2 == 0 && i % pixels.width % 2 == 0;
      const std::int64_t wanted = is_even ? even++ : -1;
      ASSERT_EQ(plain.even_of(i), wanted) << i;
      ASSERT_EQ(fast.even_of(static_cast<std::int32_t>(i)), wanted) << i;
      if (!is_even) continue;
      ASSERT_EQ(plain.all_of(wanted), i);
      ASSERT_EQ(fast.all_of(static_cast<std::int32_t>(wanted)), i);
    }
    EXPECT_EQ(even, pixels.even());
  }
}

TEST(FastDivide, IsExactUpToTheLargestNumber) {
  constexpr std::int32_t largest = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t by : {1, 2, 3, 7, 8, 31, 33, 56, 112, 641, 65537, 1 << 30, largest}) {
    const cuda::FastDivide divide(by);
    for (const std::int32_t number : {0, 1, by - 1, by, 12345, 1 << 24, largest - 1, largest}) {
      ASSERT_EQ(divide(number).quotient, number / by) << number << " / " << by;
      ASSERT_EQ(divide(number).remainder, number % by) << number << " / " << by;
    }
  }
}

}  // namespace
}  // namespace triaccel::kernels
