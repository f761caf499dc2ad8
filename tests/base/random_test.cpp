#include "triaccel/base/random.h"

#include <gtest/gtest.h>

#include <array>

namespace triaccel {
namespace {

// Known answers from the Random123 distribution (kat_vectors, philox4x32 10).
TEST(RandomWords, MatchesThePublishedVectors) {
  const RandomWords zero = random_words(0, 0, 0);
  EXPECT_EQ(zero.words[0], 0x6627e8d5u);
  EXPECT_EQ(zero.words[1], 0xe169c58du);
  EXPECT_EQ(zero.words[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.words[3], 0x9b00dbd8u);
  const RandomWords ones = random_words(~0ull, ~0ull, ~0ull);
  EXPECT_EQ(ones.words[0], 0x408f276du);
  EXPECT_EQ(ones.words[1], 0x41c83b0eu);
  EXPECT_EQ(ones.words[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.words[3], 0x6d5451fdu);
}

TEST(RandomKeys, GiveTheWordsOfTheirSeedAndThePublishedOnesOfSevenRounds) {
  const RandomWords wanted = random_words(0x123456789abcdefull, 5, 6);
  const RandomWords found = random_words(random_keys<10>(0x123456789abcdefull), 5, 6);
  const RandomWords seven = random_words(random_keys<7>(0), 0, 0);
  constexpr std::uint32_t published[] = {0x5f6fb709u, 0x0d893f64u, 0x4f121f81u, 0x4f730a48u};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(found.words[i], wanted.words[i]);
    EXPECT_EQ(seven.words[i], published[i]);
  }
}

TEST(Bounded, StaysInsideAndCoversTheRange) {
  std::array<int, 9> hits{};
  for (std::uint64_t i = 0; i < 9000; ++i) ++hits.at(bounded(random_words(1, i).words[0], 9));
  for (int hit : hits) EXPECT_NEAR(hit, 1000, 150);
}

TEST(UnitFloat, NeverReachesOne) {
  EXPECT_EQ(unit_float(0), 0.0f);
  EXPECT_LT(unit_float(~0u), 1.0f);
}

}  // namespace
}  // namespace triaccel
