#include "triaccel/core/sampler.h"

#include <gtest/gtest.h>

#include <set>

namespace triaccel {
namespace {

Sampler numbers(std::int64_t count, std::uint64_t seed = 1) {
  return Sampler(shuffled_numbers(count, 9, 9), seed);
}

TEST(Sampler, HandsOutAFewerAtTheEndOfAnEpoch) {
  Sampler sampler = numbers(10);
  sampler.take(8);
  EXPECT_EQ(sampler.upcoming(8).size(), 2u);
  sampler.take(2);
  EXPECT_EQ(sampler.epoch(), 1);
  EXPECT_EQ(sampler.cursor(), 0);
}

TEST(Sampler, LeavesSamplesUpcomingUntilTheyAreTaken) {
  Sampler sampler = numbers(10);
  const auto first = sampler.upcoming(4);
  const std::vector<std::int64_t> before(first.begin(), first.end());
  const auto again = sampler.upcoming(4);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), again.begin()));
}

TEST(Sampler, OrdersEpochsDifferentlyAndTheSameAgain) {
  Sampler one = numbers(1000), other = numbers(1000), reseeded = numbers(1000, 2);
  EXPECT_EQ(one.order(), other.order());
  EXPECT_NE(one.order(), reseeded.order());
  one.take(1000);
  EXPECT_NE(one.order(), other.order());
  EXPECT_EQ(std::set(one.order().begin(), one.order().end()).size(), 1000u);
}

TEST(Sampler, GoesOnWhereItsStateWasSaved) {
  Sampler sampler = numbers(100);
  sampler.take(100);
  sampler.take(37);
  StateMap saved;
  for (const StateView& view : sampler.state()) saved.emplace(view.name, view);
  Sampler restored = numbers(100, 77);
  restored.restore(saved);
  EXPECT_EQ(restored.order(), sampler.order());
  EXPECT_EQ(restored.cursor(), 37);
  EXPECT_EQ(restored.epoch(), 1);
}

TEST(Sampler, RefusesTheStateOfAnotherSetAndStaysAsItWas) {
  Sampler larger = numbers(101);
  StateMap saved;
  for (const StateView& view : larger.state()) saved.emplace(view.name, view);
  Sampler sampler = numbers(100);
  const auto before = sampler.order();
  EXPECT_THROW(sampler.restore(saved), StorageError);
  EXPECT_EQ(sampler.order(), before);
}

TEST(Sampler, RejectsMoreThanIsLeft) {
  Sampler sampler = numbers(5);
  EXPECT_THROW(sampler.take(6), UsageError);
  EXPECT_THROW(sampler.upcoming(0), UsageError);
  EXPECT_THROW(Sampler({}, 1), UsageError);
}

}  // namespace
}  // namespace triaccel
