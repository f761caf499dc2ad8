#include "triaccel/policies/learning_rate_schedule.h"

#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr LearningRateSchedule kSchedule{
    .peak = 0.4, .warmup_samples = 1000, .total_samples = 5000};

TEST(LearningRateAt, RisesLinearlyDuringWarmUp) {
  EXPECT_DOUBLE_EQ(learning_rate_at(kSchedule, 0, 100), 0.04);
  EXPECT_DOUBLE_EQ(learning_rate_at(kSchedule, 400, 100), 0.2);
}

TEST(LearningRateAt, FallsAsACosineToTheEnd) {
  EXPECT_DOUBLE_EQ(learning_rate_at(kSchedule, 1000, 100), 0.4);
  EXPECT_NEAR(learning_rate_at(kSchedule, 3000, 100), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate_at(kSchedule, 5000, 100), 0.0, 1e-12);
  EXPECT_NEAR(learning_rate_at(kSchedule, 9000, 100), 0.0, 1e-12);
}

TEST(LearningRateAt, DependsOnSamplesNotOnHowTheyAreBatched) {
  for (std::int64_t batch : {1, 32, 1000})
    EXPECT_DOUBLE_EQ(learning_rate_at(kSchedule, 2000, batch),
                     learning_rate_at(kSchedule, 2000, 7));
}

TEST(LearningRateAt, KeepsTheFinalShare) {
  LearningRateSchedule schedule = kSchedule;
  schedule.final_share = 0.1;
  EXPECT_NEAR(learning_rate_at(schedule, 5000, 1), 0.04, 1e-12);
}

TEST(LearningRateAt, RejectsAnEmptyRun) {
  EXPECT_THROW(learning_rate_at({.total_samples = 0}, 0, 1), UsageError);
}

}  // namespace
}  // namespace triaccel
