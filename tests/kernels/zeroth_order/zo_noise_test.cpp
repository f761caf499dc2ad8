#include "triaccel/kernels/zeroth_order/zo_noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/zeroth_order/zo_cases.h"
#include "triaccel/kernels/zeroth_order/zo_estimate.h"

namespace triaccel::kernels {
namespace {

/// z of the elements [0, count) of a network, from weights that start at 0.
at::Tensor noise(std::int64_t count, ZoBoard board, std::int32_t direction = 0,
                 ZoTensor tensor = {.exponent = -26}) {
  const at::Tensor weights = at::zeros({count});
  const std::vector<TensorEntry> tensors = {
      {.parameter = weights.data_ptr<float>(), .gradient = &tensor, .count = count}};
  board.epsilon = 1.0f / 512;
  cpu::zo_move(tensors, {.board = &board, .shift = {direction, 1}});
  return weights.to(at::kDouble) * 512;
}

double correlation(const at::Tensor& a, const at::Tensor& b) {
  return (a * b).mean().item<double>();
}

TEST(ZoNoise, IsStandardNormal) {
  const at::Tensor z = noise(1'000'000, {.seed = 1});
  EXPECT_NEAR(z.mean().item<double>(), 0, 4e-3);
  EXPECT_NEAR(z.pow(2).mean().item<double>(), 1, 6e-3);
  EXPECT_NEAR(z.pow(3).mean().item<double>(), 0, 2e-2);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.05);
  for (const double x : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0})
    EXPECT_NEAR(z.lt(x).to(at::kDouble).mean().item<double>(), 0.5 * std::erfc(-x / std::sqrt(2)),
                2e-3)
        << x;
}

TEST(ZoNoise, IsOfItsOwnForEverySeedStepDirectionAndElement) {
  constexpr std::int64_t n = 200'000;
  const at::Tensor z = noise(n, {.seed = 1, .step = 3});
  for (const at::Tensor& other :
       {noise(n, {.seed = 2, .step = 3}), noise(n, {.seed = 1, .step = 4}),
        noise(n, {.seed = 1, .step = 3}, 1), noise(n, {.seed = 1, .step = 3}, 0, {n, -26})})
    EXPECT_NEAR(correlation(z, other), 0, 0.01);
  for (const std::int64_t lag : {1, 2, 4, 7, 8, 16})
    EXPECT_NEAR(correlation(z.narrow(0, 0, n - lag), z.narrow(0, lag, n - lag)), 0, 0.01) << lag;
  EXPECT_TRUE(same_bits(z, noise(n, {.seed = 1, .step = 3})));
}

TEST(ZoNoise, BelongsToTheElementWhereverItLiesInMemory) {
  const at::Tensor z = noise(6 * 35, {.seed = 1});
  const at::Tensor swapped =
      noise(6 * 35, {.seed = 1}, 0, {.exponent = -26, .inner_rows = 5, .inner_columns = 7});
  EXPECT_TRUE(same_bits(z.view({6, 5, 7}), swapped.view({6, 7, 5}).transpose(1, 2).contiguous()));
}

TEST(ZoMove, ComesBackToTheLastBit) {
  ZoCase c;
  const TensorBunch before = c.bunch.on(at::kCPU);
  const auto tensors = ZoCase::entries(c.bunch, c.tensors.data());
  for (const std::int32_t multiple : {1, -2, 2, -1}) {
    for (const std::int32_t direction : {0, 1})
      cpu::zo_move(tensors, {.board = &c.board, .shift = {direction, multiple}});
    if (multiple != -1) {
      EXPECT_FALSE(same_bits(c.bunch.parameters, before.parameters));
    }
  }
  EXPECT_TRUE(same_bits(c.bunch.parameters, before.parameters));
}

ZoMove update_of(const ZoCase& c, ZoShift shift = {}, const StepControl* control = nullptr) {
  return {.board = &c.board,
          .shift = shift,
          .history = c.history.data(),
          .learning_rates = c.rates.data(),
          .control = control,
          .directions = 2,
          .memory = 3,
          .momentum = 0.5f};
}

TEST(ZoMove, FollowsTheEstimatesOfTheLastSteps) {
  ZoCase c;
  const TensorBunch before = c.bunch.on(at::kCPU);
  cpu::zo_move(ZoCase::entries(c.bunch, c.tensors.data()), update_of(c));
  for (const std::size_t i : {3u, 9u, 10u}) {
    at::Tensor expected = before.parameters[i].to(at::kDouble);
    for (std::int64_t back = 0; back < 3; ++back)
      for (std::int32_t d = 0; d < 2; ++d) {
        ZoTensor numbering = c.tensors[i];
        numbering.exponent = -26;
        const std::int64_t step = c.board.step - back;
        const at::Tensor z =
            noise(expected.numel(), {.seed = c.board.seed, .step = step}, d, numbering);
        const double g = c.history[static_cast<std::size_t>(step % 3 * 2 + d)];
        expected -= c.rates[i % 3] / 2 * std::pow(0.5, static_cast<double>(back)) * g * z;
      }
    EXPECT_LT((c.bunch.parameters[i] - expected).abs().max().item<double>(), 3e-6) << i;
  }
}

TEST(ZoMove, PutsBackAndUpdatesInOnePassAsInTwo) {
  ZoCase one, two;
  two.bunch = one.bunch.on(at::kCPU);
  const auto a = ZoCase::entries(one.bunch, one.tensors.data());
  const auto b = ZoCase::entries(two.bunch, two.tensors.data());
  for (const auto& tensors : {a, b}) cpu::zo_move(tensors, {.board = &one.board, .shift = {1, 1}});
  cpu::zo_move(a, update_of(one, {1, -1}));
  cpu::zo_move(b, {.board = &two.board, .shift = {1, -1}});
  cpu::zo_move(b, update_of(two));
  EXPECT_TRUE(same_bits(one.bunch.parameters, two.bunch.parameters));
}

TEST(ZoMove, OnlyPutsBackInASkippedStep) {
  ZoCase c;
  const TensorBunch before = c.bunch.on(at::kCPU);
  const auto tensors = ZoCase::entries(c.bunch, c.tensors.data());
  const StepControl skipped{.skip = 1};
  cpu::zo_move(tensors, {.board = &c.board, .shift = {0, 1}});
  cpu::zo_move(tensors, update_of(c, {0, -1}, &skipped));
  EXPECT_TRUE(same_bits(c.bunch.parameters, before.parameters));
}

TEST(ZoMove, KeepsEveryWeightOnItsGridHoweverLargeTheEstimate) {
  ZoCase c;
  const auto tensors = ZoCase::entries(c.bunch, c.tensors.data());
  for (const float g : {1e5f, 1e30f, INFINITY}) {
    c.history.assign(6, g);
    cpu::zo_move(tensors, update_of(c));
  }
  for (const at::Tensor& weights : c.bunch.parameters) {
    const at::Tensor steps = weights.to(at::kDouble) * 0x1p22;
    EXPECT_TRUE(at::equal(steps, steps.round()));
    EXPECT_TRUE(steps.abs().le(double{kZoLargestWeight}).all().item<bool>());
  }
}

/// Losses of evaluations, cut into three parts each, of ten rows.
struct Losses {
  explicit Losses(const std::vector<double>& means) {
    for (const double mean : means)
      for (const double share : {0.5, 0.25, 0.25}) parts.push_back({.loss = mean * 10 * share});
  }
  ZoLosses view() const { return {parts.data(), 3, 10}; }
  std::vector<PartialScore> parts;
};

struct Estimated {
  std::vector<float> history = std::vector<float>(4, 9);
  std::vector<float> log = std::vector<float>(16, 9);
  LayerMoments moments;
  ZoBoard board{.step = 3, .epsilon = 0.25f};

  ZoEstimate inputs(const Losses& losses, ZoRule rule) {
    rule.directions = 2;
    rule.memory = 2;
    return {.board = &board,
            .rule = rule,
            .losses = losses.view(),
            .history = history.data(),
            .log = log.data(),
            .log_steps = 8,
            .moments = &moments,
            .norm = true};
  }
};

TEST(ZoEstimate, IsTheSlopeOfTheLossAlongEachDirection) {
  const Losses both({1, 2, 4, 3.5}), one({1, 2, 0});
  Estimated central, forward, clipped, signs;
  cpu::zo_estimate(central.inputs(both, {}));
  EXPECT_EQ(central.history, (std::vector<float>{9, 9, 2, -1}));  // step 3 of two that are kept
  EXPECT_EQ(central.log[6], 2);
  EXPECT_DOUBLE_EQ(central.moments.sum_of_squares, 2.5);
  cpu::zo_estimate(forward.inputs(one, {.one_sided = true}));
  EXPECT_EQ(forward.history, (std::vector<float>{9, 9, 4, -4}));
  cpu::zo_estimate(clipped.inputs(both, {.clip = 1.5f}));
  EXPECT_EQ(clipped.history, (std::vector<float>{9, 9, 1.5f, -1}));
  cpu::zo_estimate(signs.inputs(both, {.sign = true}));
  EXPECT_EQ(signs.history, (std::vector<float>{9, 9, 1, -1}));
}

TEST(ZoEstimate, SeesWhatFp32WouldNot) {
  Estimated e;
  cpu::zo_estimate(e.inputs(Losses({2.3, 2.3 + 1e-10, 2.3, 2.3}), {}));
  EXPECT_NEAR(e.history[2], 2e-10, 1e-14);
}

TEST(ZoEstimate, TellsOfALossThatIsNoNumberAndForgetsTheStep) {
  Estimated e;
  cpu::zo_estimate(e.inputs(Losses({1, 2, 1, NAN}), {}));
  EXPECT_EQ(e.history, (std::vector<float>{9, 9, 0, 0}));
  EXPECT_EQ(e.moments.nonfinite, 1);
  EXPECT_EQ(e.board.step, 3);
}

TEST(ZoEstimate, ClosesTheStepAndForgetsASkippedOne) {
  Estimated e;
  const Losses losses({1, 2, 4, 3.5});
  const ZoEstimate inputs = e.inputs(losses, {});
  cpu::zo_estimate(inputs);
  const StepControl applied, skipped{.skip = 1};
  cpu::zo_close(inputs, &applied);
  EXPECT_EQ(e.history[2], 2);
  cpu::zo_estimate(inputs);
  cpu::zo_close(inputs, &skipped);
  EXPECT_EQ(e.history, (std::vector<float>{0, 0, 2, -1}));
  EXPECT_EQ(e.log[8], 0);
  EXPECT_EQ(e.board.step, 5);
}

}  // namespace
}  // namespace triaccel::kernels
