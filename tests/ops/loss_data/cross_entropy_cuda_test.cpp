#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/ops/loss_data/cross_entropy_case.h"
#include "triaccel/device/device_choice.h"

namespace triaccel {
namespace {

class CrossEntropyOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(1);
  }
  const at::Device device_ = at::Device(at::kCUDA, 0);
};

TEST_F(CrossEntropyOnCuda, MatchesTorchInFp64ForEveryShapeAndType) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& [rows, classes] : {std::pair{1, 2},
                                        {1, 1},
                                        {96, 10},
                                        {128, 12},
                                        {129, 13},
                                        {1000, 16},
                                        {77, 17},
                                        {1021, 100},
                                        {9001, 65},
                                        {97, 257},
                                        {13, 1000},
                                        {1500, 1001},
                                        {2, 8192},
                                        {5, 50257}}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << classes << " " << type);
      const CrossEntropyCase test(rows, classes, type);
      const auto [loss, expected] = test.in_fp64(0.1, 0.5 * 1024);
      const at::Tensor host = make_running_score(at::kCPU), score = make_running_score(device_);
      add_cross_entropy(host, test.logits, test.labels, rows);
      const at::Tensor scale = at::full({}, 1024.0f).to(device_);
      const at::Tensor gradient = cross_entropy_gradient(
          score, test.logits.to(device_), test.labels.to(device_), rows, 0.1, 0.5, scale);
      EXPECT_TRUE(is_close(gradient, expected, 512.0 / rows));
      const RunningScore read = read_score(score);
      EXPECT_NEAR(read.loss_sum, loss * rows, 2e-6 * (1 + loss) * rows);
      EXPECT_EQ(read.correct, read_score(host).correct);
      EXPECT_EQ(read.predictions, rows);
      EXPECT_EQ(read.samples, rows);
      EXPECT_EQ(read.finished_blocks, 0u);
    }
}

TEST_F(CrossEntropyOnCuda, SpoilsTheRowOfABadLabelAlone) {
  for (const std::int64_t classes : {3, 14, 30, 300, 9000})
    for (const std::int64_t bad : {std::int64_t{-1}, classes, std::int64_t{1} << 40}) {
      const at::Tensor logits = at::randn({2, classes}, device_);
      const at::Tensor labels = at::tensor({std::int64_t{1}, bad}).to(device_);
      const at::Tensor score = make_running_score(device_);
      const at::Tensor gradient = cross_entropy_gradient(score, logits, labels, 2, 0.1, 1, {});
      EXPECT_TRUE(gradient[0].isfinite().all().item<bool>());
      EXPECT_TRUE(gradient[1].isnan().all().item<bool>());
      EXPECT_EQ(read_score(score).nonfinite_losses, 1);
      EXPECT_EQ(read_score(score).samples, 0);
    }
}

/// Infinities, NaNs, both zeros and ties, where the first of the largest counts.
TEST_F(CrossEntropyOnCuda, TakesLogitsOfEveryKindAsTheCpuDoes) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor kinds = at::tensor({-infinity, infinity, std::nanf(""), -0.0f, 0.0f, 1.0f});
  for (const std::int64_t classes : {2, 10, 16, 40, 300})
    for (int turn = 0; turn < 20; ++turn) {
      const std::int64_t count = turn % 2 == 0 ? 6 : 1;  // or all of one kind
      const at::Tensor which = at::randint(count, {1, classes}, at::kLong);
      const at::Tensor logits = kinds.index({which + (count == 1 ? turn / 2 % 6 : 0)});
      const at::Tensor labels = at::randint(classes, {1}, at::kLong);
      const at::Tensor host = make_running_score(at::kCPU), score = make_running_score(device_);
      const at::Tensor expected = cross_entropy_gradient(host, logits, labels, 1, 0, 1, {});
      const at::Tensor gradient =
          cross_entropy_gradient(score, logits.to(device_), labels.to(device_), 1, 0, 1, {});
      EXPECT_TRUE(at::allclose(gradient.cpu(), expected, 1e-5, 1e-6, /*equal_nan=*/true)) << logits;
      EXPECT_EQ(read_score(score).correct, read_score(host).correct) << logits;
      EXPECT_EQ(read_score(score).nonfinite_losses, read_score(host).nonfinite_losses) << logits;
    }
}

TEST_F(CrossEntropyOnCuda, ReachesRowsThatAreNotAlignedForVectors) {
  const CrossEntropyCase test(7, 1003, at::kBFloat16);
  const at::Tensor shifted = at::empty({7 * 1003 + 3}, test.logits.options().device(device_));
  const at::Tensor logits = shifted.narrow(0, 3, 7 * 1003).view({7, 1003});
  logits.copy_(test.logits);
  const at::Tensor gradient = cross_entropy_gradient(make_running_score(device_), logits,
                                                     test.labels.to(device_), 7, 0, 1, {});
  EXPECT_TRUE(is_close(gradient, std::get<1>(test.in_fp64(0, 1)), 1.0 / 7));
}

TEST_F(CrossEntropyOnCuda, ACapturedCallFollowsLogitsAndScaleWithTheSameBitsEachTime) {
  const CrossEntropyCase test(3000, 10, at::kFloat);
  const at::Tensor logits = test.logits.to(device_), labels = test.labels.to(device_);
  const at::Tensor score = make_running_score(device_), scale = at::ones({}, device_);
  at::cuda::CUDAGraph graph;
  at::Tensor gradient;
  {
    const c10::cuda::CUDAStreamGuard pool(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    gradient = cross_entropy_gradient(score, logits, labels, 3000, 0, 1, scale);
    graph.capture_end();
  }
  at::Tensor first, first_score;
  for (int turn = 0; turn < 20; ++turn) {
    score.zero_();
    synchronize(device_);
    graph.replay();
    synchronize(device_);
    if (turn == 0) {
      first = gradient.clone();
      first_score = score.clone();
    }
    EXPECT_TRUE(at::equal(gradient, first));
    EXPECT_TRUE(at::equal(score, first_score));
  }
  scale.fill_(8);
  logits.neg_();
  synchronize(device_);
  graph.replay();
  synchronize(device_);
  EXPECT_EQ(read_score(score).samples, 6000);
  const at::Tensor eager = make_running_score(device_);
  EXPECT_TRUE(
      at::equal(gradient, cross_entropy_gradient(eager, logits, labels, 3000, 0, 1, scale)));
}

}  // namespace
}  // namespace triaccel
