#include "triaccel/kernels/running_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace triaccel::kernels {
namespace {

RunningScore score_of(std::vector<float> logits, std::vector<std::int64_t> labels, float loss = 0) {
  RunningScore score;
  const auto rows = static_cast<std::int64_t>(labels.size());
  cpu::add_score(&score, {.loss = &loss,
                          .logits = logits.data(),
                          .labels = labels.data(),
                          .rows = rows,
                          .classes = static_cast<std::int64_t>(logits.size()) /
                                     std::max<std::int64_t>(rows, 1),
                          .samples = rows});
  return score;
}

TEST(AddScore, CountsRowsWhoseFirstMaximumIsTheLabel) {
  const RunningScore score = score_of({1, 2, 3,   //
                                       5, 5, 0,   // a tie belongs to the first
                                       5, 5, 0},  //
                                      {2, 0, 1});
  EXPECT_EQ(score.correct, 2);
  EXPECT_EQ(score.predictions, 3);
}

TEST(AddScore, LeavesNegativeLabelsOut) {
  const RunningScore score = score_of({1, 2, 2, 1}, {1, -100});
  EXPECT_EQ(score.correct, 1);
  EXPECT_EQ(score.predictions, 1);
}

TEST(AddScore, NeverCountsARowWithoutNumbersAsRight) {
  EXPECT_EQ(score_of({NAN, NAN}, {0}).correct, 0);
  EXPECT_EQ(score_of({NAN, 1}, {1}).correct, 1);
  EXPECT_EQ(score_of({-INFINITY, -INFINITY}, {0}).correct, 1);
}

TEST(AddScore, WeighsTheLossBySamples) {
  RunningScore score;
  float loss = 2;
  cpu::add_score(&score, {.loss = &loss, .samples = 3});
  loss = 4;
  cpu::add_score(&score, {.loss = &loss, .samples = 1});
  EXPECT_EQ(score.loss_sum, 10);
  EXPECT_EQ(score.samples, 4);
}

TEST(AddScore, KeepsALossThatIsNoNumberOutOfTheSum) {
  const RunningScore score = score_of({1, 0}, {0}, NAN);
  EXPECT_EQ(score.loss_sum, 0);
  EXPECT_EQ(score.samples, 0);
  EXPECT_EQ(score.nonfinite_losses, 1);
}

}  // namespace
}  // namespace triaccel::kernels
