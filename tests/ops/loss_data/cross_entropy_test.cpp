#include "triaccel/ops/loss_data/cross_entropy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/ops/loss_data/cross_entropy_case.h"
#include "triaccel/base/error.h"
#include "triaccel/kernels/loss_data/cross_entropy.h"

namespace triaccel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(CrossEntropyGradient, MatchesTorchInFp64ForEveryShapeAndType) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& [rows, classes] :
         {std::pair{1, 2}, {1, 1}, {96, 10}, {97, 257}, {13, 1000}, {2, 50257}})
      for (const double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(testing::Message()
                     << rows << " x " << classes << " " << type << " smoothing " << smoothing);
        const CrossEntropyCase test(rows, classes, type);
        const auto [loss, expected] = test.in_fp64(smoothing, 0.5 * 1024);
        const at::Tensor score = make_running_score(at::kCPU);
        const at::Tensor scale = at::full({}, 1024.0f);
        const at::Tensor gradient =
            cross_entropy_gradient(score, test.logits, test.labels, rows, smoothing, 0.5, scale);
        EXPECT_EQ(gradient.scalar_type(), type);
        EXPECT_TRUE(is_close(gradient, expected, 512.0 / rows));
        const RunningScore read = read_score(score);
        EXPECT_NEAR(read.loss_sum, loss * rows, 1e-6 * (1 + loss) * rows);
        EXPECT_EQ(read.correct, test.logits.argmax(1).eq(test.labels).sum().item<std::int64_t>());
        EXPECT_EQ(read.predictions, rows);
        EXPECT_EQ(read.samples, rows);
        EXPECT_EQ(read.finished_blocks, 0u);
      }
}

TEST(CrossEntropyGradient, StaysExactForLogitsFarApart) {
  const at::Tensor logits = at::tensor({3e4f, -3e4f, 2.9e4f, -3e4f, -3e4f, 0.0f}).view({2, 3});
  const at::Tensor labels = at::tensor({2, 1}, at::kLong), score = make_running_score(at::kCPU);
  const at::Tensor gradient = cross_entropy_gradient(score, logits, labels, 2, 0, 1, {});
  EXPECT_EQ(read_score(score).loss_sum, 1e3 + 3e4);
  EXPECT_TRUE(at::equal(gradient, at::tensor({0.5f, 0.0f, -0.5f, 0.0f, -0.5f, 0.5f}).view({2, 3})));
}

TEST(CrossEntropyGradient, CountsTheBatchAsNotFiniteAndSpoilsTheRowOfABadLabel) {
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 40}) {
    const at::Tensor logits = at::randn({2, 3}), labels = at::tensor({std::int64_t{1}, bad});
    const at::Tensor score = make_running_score(at::kCPU);
    const at::Tensor gradient = cross_entropy_gradient(score, logits, labels, 2, 0.1, 1, {});
    EXPECT_TRUE(gradient[0].isfinite().all().item<bool>());
    EXPECT_TRUE(gradient[1].isnan().all().item<bool>());
    const RunningScore read = read_score(score);
    EXPECT_EQ(read.nonfinite_losses, 1);
    EXPECT_EQ(read.samples, 0);
    EXPECT_EQ(read.loss_sum, 0);
    EXPECT_EQ(read.predictions, bad < 0 ? 1 : 2);
  }
}

TEST(CrossEntropyGradient, CountsLogitsThatAreNotFinite) {
  for (const float bad : {kInfinity, std::nanf("")}) {
    const at::Tensor logits = at::tensor({0.0f, bad, 1.0f}).view({1, 3});
    const at::Tensor score = make_running_score(at::kCPU);
    const at::Tensor gradient =
        cross_entropy_gradient(score, logits, at::zeros({1}, at::kLong), 1, 0, 1, {});
    EXPECT_EQ(read_score(score).nonfinite_losses, 1);
    EXPECT_TRUE(gradient.isnan().any().item<bool>());
  }
}

TEST(CrossEntropyGradient, TreatsAClassRuledOutByMinusInfinityAsTorchDoes) {
  const at::Tensor logits = at::tensor({0.0f, -kInfinity, 1.0f}).view({1, 3});
  const at::Tensor score = make_running_score(at::kCPU);
  const at::Tensor gradient =
      cross_entropy_gradient(score, logits, at::zeros({1}, at::kLong), 1, 0, 1, {});
  EXPECT_EQ(gradient[0][1].item<float>(), 0);
  EXPECT_NEAR(read_score(score).loss_sum, std::log(1 + std::exp(1.0)), 1e-6);
}

TEST(AddCrossEntropy, AddsWhatTheGradientsCallAddsAndCountsSamplesNotRows) {
  const CrossEntropyCase test(64, 100, at::kBFloat16);
  const at::Tensor with = make_running_score(at::kCPU), without = make_running_score(at::kCPU);
  cross_entropy_gradient(with, test.logits, test.labels, 8, 0, 1, {});
  add_cross_entropy(without, test.logits, test.labels, 8);
  EXPECT_TRUE(at::equal(with, without));
  EXPECT_EQ(read_score(without).samples, 8);
  EXPECT_EQ(read_score(without).predictions, 64);
}

TEST(AddCrossEntropy, KeepsTheLossOfEveryPartOfTheRows) {
  for (const auto& [classes, count] : {std::pair{10, 3}, {17, 38}, {300, 300}}) {
    const CrossEntropyCase test(300, classes, at::kFloat);
    ASSERT_EQ(kernels::cross_entropy_parts(300, classes), count);
    const at::Tensor score = make_running_score(at::kCPU);
    const at::Tensor parts =
        at::empty({count * std::int64_t{sizeof(kernels::PartialScore)}}, at::kByte);
    add_cross_entropy(score, test.logits, test.labels, 300, 0, parts);
    double loss = 0;
    for (int i = 0; i < count; ++i)
      loss += static_cast<const kernels::PartialScore*>(parts.const_data_ptr())[i].loss;
    EXPECT_NEAR(loss, read_score(score).loss_sum, 1e-6 * loss) << classes;
  }
}

TEST(CrossEntropyGradient, NamesAWrongArgument) {
  const at::Tensor score = make_running_score(at::kCPU), logits = at::zeros({2, 3});
  const at::Tensor labels = at::zeros({2}, at::kLong);
  EXPECT_THROW(cross_entropy_gradient(score, logits.t(), labels, 2, 0, 1, {}), UsageError);
  EXPECT_THROW(cross_entropy_gradient(score, logits, labels, 2, 1.5, 1, {}), UsageError);
  EXPECT_THROW(cross_entropy_gradient(score, logits, labels, 2, 0, 1, at::ones({2})), UsageError);
  EXPECT_THROW(add_cross_entropy(score, at::zeros({2, 0}), labels, 2), UsageError);
  EXPECT_THROW(add_cross_entropy(score, logits.to(at::kDouble), labels, 2), UsageError);
  EXPECT_THROW(add_cross_entropy(at::zeros({8}, at::kByte), logits, labels, 2), UsageError);
}

}  // namespace
}  // namespace triaccel
