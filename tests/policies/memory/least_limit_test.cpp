#include "triaccel/policies/memory/least_limit.h"

#include <gtest/gtest.h>

namespace triaccel {
namespace {

struct Search {
  std::optional<std::int64_t> found;
  int tries = 0;
};

Search search_for(std::int64_t needed, std::int64_t estimate, std::int64_t known) {
  Search search;
  search.found = least_limit(
      [&](std::int64_t bytes) {
        ++search.tries;
        return bytes >= needed;
      },
      estimate, known);
  return search;
}

TEST(LeastLimit, IsFoundWithinOneStepHoweverFarOffTheEstimateIs) {
  constexpr std::int64_t kNeeded = 1'000'000;
  for (const double off : {0.7, 0.9, 1.0, 1.1, 1.3}) {
    const auto estimate = static_cast<std::int64_t>(off * kNeeded);
    for (const std::int64_t known : {std::int64_t{0}, std::int64_t{1'100'000}}) {
      const auto [found, tries] = search_for(kNeeded, estimate, known);
      ASSERT_TRUE(found) << off << " " << known;
      EXPECT_GE(*found, kNeeded);
      EXPECT_LE(*found, kNeeded + kNeeded / (kStepsToLeast - 2)) << off << " " << known;
      EXPECT_LE(tries, 11);
    }
  }
}

TEST(LeastLimit, IsNoneWhereItWouldBeNoLessThanAKnownOne) {
  for (const std::int64_t estimate : {500'000, 1'000'000, 2'000'000}) {
    const auto [found, tries] = search_for(1'000'000, estimate, 1'000'000);
    EXPECT_FALSE(found) << estimate;
    EXPECT_LE(tries, 2);
  }
}

TEST(LeastLimit, IsNoneFarAboveTheEstimate) {
  EXPECT_FALSE(search_for(2'000'000, 1'000'000, 0).found);
}

}  // namespace
}  // namespace triaccel
