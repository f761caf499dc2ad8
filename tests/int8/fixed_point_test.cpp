#include "triaccel/int8/fixed_point.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "triaccel/base/random.h"

namespace triaccel::int8 {
namespace {

constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();

std::int64_t signed_as(std::int64_t size, std::int64_t like) { return like < 0 ? -size : size; }
std::int64_t size_of(std::int64_t x) { return x < 0 ? -x : x; }

/// Each rounding by its definition, in 64 bits and with divisions.
std::int64_t nearest(std::int64_t x, int shift) {
  const std::int64_t unit = std::int64_t{1} << shift;
  return signed_as((2 * size_of(x) + unit) / (2 * unit), x);
}
std::int64_t stochastic(std::int64_t x, int shift, std::uint32_t random) {
  const std::int64_t unit = std::int64_t{1} << shift;
  return signed_as((size_of(x) + random % unit) / unit, x);
}
std::int64_t pseudo(std::int64_t x, int shift) {
  const std::int64_t unit = std::int64_t{1} << shift;
  const std::int64_t half_unit = std::int64_t{1} << (shift / 2);
  const std::int64_t dropped = size_of(x) % unit;
  const std::int64_t low = dropped % half_unit * (shift % 2 == 1 ? 2 : 1);
  return signed_as(size_of(x) / unit + (shift > 0 && dropped / half_unit > low ? 1 : 0), x);
}

void check_all(std::int32_t x, int shift, std::uint32_t random) {
  ASSERT_EQ(round_nearest(x, shift), nearest(x, shift)) << x << " >> " << shift;
  ASSERT_EQ(round_stochastic(x, shift, random), stochastic(x, shift, random))
      << x << " >> " << shift << " with " << random;
  ASSERT_EQ(round_pseudo(x, shift), pseudo(x, shift)) << x << " >> " << shift;
}

TEST(Rounding, EqualsItsDefinitionForAllSmallValues) {
  for (int shift = 0; shift <= 12; ++shift) {
    for (std::int32_t x = -65535; x <= 65535; x += shift == 3 || shift == 4 ? 1 : 7)
      check_all(x, shift, static_cast<std::uint32_t>(x) * 2654435761u);
  }
}

TEST(Rounding, EqualsItsDefinitionForRandomAndExtremeValues) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const RandomWords words = random_words(5, i);
    check_all(static_cast<std::int32_t>(words.words[0]), static_cast<int>(words.words[1] % 31) + 1,
              words.words[2]);
  }
  for (int shift = 1; shift <= 31; ++shift) {
    for (const std::int32_t x : {kLowest, kLowest + 1, -1, 0, 1, kHighest})
      check_all(x, shift, ~0u);
  }
}

TEST(RoundStochastic, HasTheExactMeanOverAllRandomBits) {
  for (int shift = 1; shift <= 10; ++shift) {
    for (std::int32_t x = -3000; x <= 3000; x += 37) {
      std::int64_t sum = 0;
      for (std::uint32_t random = 0; random < (1u << shift); ++random)
        sum += round_stochastic(x, shift, random);
      ASSERT_EQ(sum, x) << "shift " << shift;  // 2^shift draws of x / 2^shift
    }
  }
}

TEST(Requantise, BringsTheLargestSumIntoSevenBits) {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const RandomWords words = random_words(6, i);
    const auto x = static_cast<std::int32_t>(words.words[0]) >> (words.words[1] % 31);
    const std::int32_t shift = requant_shift(magnitude(x));
    EXPECT_LE(magnitude(x) >> shift, 127u);
    EXPECT_TRUE(shift == 0 || magnitude(x) >> (shift - 1) > 127u) << "a smaller shift would do";
    EXPECT_LE(size_of(requantise(x, shift)), 127);
  }
}

TEST(Requantise, NeverYieldsMinus128) {
  EXPECT_EQ(requantise(-255, 1), -127);
  EXPECT_EQ(requantise(128, requant_shift(128)), 64);
  EXPECT_EQ(requantise(kLowest, requant_shift(magnitude(kLowest))), -64);
  EXPECT_EQ(saturate8(-128), -127);
}

TEST(BitLength, CountsBits) {
  EXPECT_EQ(bit_length(0), 0);
  EXPECT_EQ(bit_length(1), 1);
  EXPECT_EQ(bit_length(127), 7);
  EXPECT_EQ(bit_length(128), 8);
  EXPECT_EQ(bit_length(magnitude(kLowest)), 32);
}

}  // namespace
}  // namespace triaccel::int8
