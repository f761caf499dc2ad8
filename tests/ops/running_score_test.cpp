#include "triaccel/ops/running_score.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(RunningScoreOp, AddsBatchesAsTorchCountsThem) {
  const at::Tensor score = make_running_score(at::kCPU);
  std::int64_t correct = 0;
  double loss_sum = 0;
  for (const std::int64_t rows : {1, 64, 7}) {
    const at::Tensor logits = at::randn({rows, 10});
    const at::Tensor labels = at::randint(10, {rows}, at::kLong);
    const at::Tensor loss = at::cross_entropy_loss(logits, labels);
    add_score(score, loss, logits, labels, rows);
    correct += logits.argmax(1).eq(labels).sum().item<std::int64_t>();
    loss_sum += loss.item<double>() * static_cast<double>(rows);
  }
  const RunningScore read = read_score(score);
  EXPECT_EQ(read.correct, correct);
  EXPECT_EQ(read.predictions, 72);
  EXPECT_EQ(read.samples, 72);
  EXPECT_DOUBLE_EQ(read.loss_sum, loss_sum);
  score.zero_();
  EXPECT_EQ(read_score(score).predictions, 0);
}

TEST(RunningScoreOp, ReadsHalfPrecisionLogits) {
  const at::Tensor logits = at::tensor({0.0f, 2.0f, -1.0f, -3.0f}).view({2, 2});
  const at::Tensor labels = at::tensor({1, 0}, at::kLong);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor score = make_running_score(at::kCPU);
    add_score(score, at::zeros({}), logits.to(type), labels, 2);
    EXPECT_EQ(read_score(score).correct, 2);
  }
}

TEST(RunningScoreOp, NamesAWrongArgument) {
  const at::Tensor score = make_running_score(at::kCPU);
  const at::Tensor loss = at::zeros({}), logits = at::zeros({2, 3});
  const at::Tensor labels = at::zeros({2}, at::kLong);
  EXPECT_THROW(add_score(score, at::zeros({2}), logits, labels, 2), UsageError);
  EXPECT_THROW(add_score(score, loss, logits.t(), labels, 2), UsageError);
  EXPECT_THROW(add_score(score, loss, logits.to(at::kDouble), labels, 2), UsageError);
  EXPECT_THROW(add_score(score, loss, logits, labels.to(at::kInt), 2), UsageError);
}

}  // namespace
}  // namespace triaccel
