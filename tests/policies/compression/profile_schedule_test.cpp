#include "triaccel/policies/compression/profile_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace triaccel {
namespace {

/// The steps up to 2,000 at which it is due, decided every `interval`; `noise` over its target from
/// step 600 to 700.
std::vector<std::int64_t> profiled(std::int64_t every, std::int64_t interval, double noise = 0) {
  ProfileSchedule schedule(every);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; step <= 2000; step += interval) {
    if (!schedule.due(step)) continue;
    steps.push_back(step);
    schedule.start(step);
    schedule.found(step >= 600 && step <= 700 ? noise : 0.1, step);
  }
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST(ProfileSchedule, ProfilesOftenWhileARunIsYoung) {
  EXPECT_EQ(profiled(500, 25), (Steps{0, 25, 75, 175, 375, 775, 1275, 1775}));
  EXPECT_EQ(profiled(200, 1),
            (Steps{0, 16, 48, 112, 240, 440, 640, 840, 1040, 1240, 1440, 1640, 1840}));
  EXPECT_EQ(profiled(20, 1).size(), 101u) << "16 steps once, then 20";
  EXPECT_EQ(profiled(3, 1)[2], 6);
}

TEST(ProfileSchedule, MakesUpForADecisionThatComesLater) {
  EXPECT_EQ(profiled(333, 25), (Steps{0, 25, 75, 150, 300, 575, 925, 1275, 1625, 1975}));
}

TEST(ProfileSchedule, WatchesNoiseClosely) {
  const Steps calm = profiled(200, 25), close = profiled(200, 25, 0.7),
              noisy = profiled(200, 25, 2);
  EXPECT_EQ(close, calm) << "no longer gap, where it is the longest already";
  EXPECT_EQ(noisy, (Steps{0, 25, 75, 150, 300, 500, 700, 725, 750, 800, 875, 1025, 1225, 1425, 1625,
                          1825}));
}

TEST(ProfileSchedule, IsNotMovedByProfilesThatWereNotDue) {
  ProfileSchedule schedule(500);
  schedule.start(0);
  schedule.found(0.1, 0);
  schedule.start(10);
  schedule.found(0.1, 10);
  EXPECT_FALSE(schedule.due(24));
  EXPECT_TRUE(schedule.due(25));
  schedule.found(0.7, 10);
  schedule.start(25);
  EXPECT_TRUE(schedule.due(50)) << "the gap does not grow";
}

TEST(ProfileSchedule, ReadsItsStateBack) {
  ProfileSchedule schedule(500), read(500);
  schedule.start(0);
  schedule.start(25);
  const StateView state = schedule.state("schedule");
  StateMap saved;
  read.restore(saved, "schedule");
  EXPECT_TRUE(read.due(0)) << "of a version without one";
  saved.emplace(state.name, state);
  read.restore(saved, "schedule");
  EXPECT_FALSE(read.due(74));
  EXPECT_TRUE(read.due(75));
}

}  // namespace
}  // namespace triaccel
