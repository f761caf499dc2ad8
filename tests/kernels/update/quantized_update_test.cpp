#include "triaccel/kernels/update/quantized_update.h"

#include <gtest/gtest.h>

#include "tests/kernels/update/quantized_bunch.h"

namespace triaccel::kernels {
namespace {

const std::vector<float> kRates = {0.5f, 0.25f, 0.0f};
const StepControl kControl = {.gradient_multiplier = 0.25f, .applied_steps = 3};
const UpdateInputs kInputs = {.learning_rates = kRates.data(), .control = &kControl};

/// The largest distance between a value's levels, in the block of 128 that it lies in.
at::Tensor level_distance(const at::Tensor& values, double least) {
  const std::int64_t blocks = state_blocks(values.numel());
  const at::Tensor padded = at::zeros({blocks * kStateBlock}, values.options());
  padded.narrow(0, 0, values.numel()).copy_(values.abs());
  const at::Tensor largest = std::get<0>(padded.view({blocks, kStateBlock}).max(1, true));
  const at::Tensor lowest = (largest * least).expand({blocks, kStateBlock}).reshape({-1});
  return at::maximum(padded / 8, lowest).narrow(0, 0, values.numel());
}

void expect_within(const at::Tensor& found, const at::Tensor& wanted, double least) {
  if (wanted.numel() == 0) return;
  const at::Tensor excess =
      (found.to(at::kDouble) - wanted).abs() - level_distance(wanted, least) * (1 + 1e-5);
  EXPECT_LE(excess.max().item<double>(), 0) << wanted.numel() << " values";
}

constexpr double kLeastFirst = 0x1.1p-17, kLeastSecond = 0x1.1p-33;

TEST(QuantizedSgdUpdate, FollowsTheFormulaUpToTheRoundingOfItsState) {
  for (const bool nesterov : {false, true}) {
    CodedBunch bunch{TensorBunch(awkward_sizes())};
    const CodedBunch before = bunch.on(at::kCPU);
    cpu::quantized_sgd_update(bunch.entries(), kInputs,
                              {.momentum = 0.9f, .weight_decay = 0.01f, .nesterov = nesterov},
                              bunch.noise());
    for (std::size_t i = 0; i < bunch.plain.parameters.size(); ++i) {
      const at::Tensor p = before.plain.parameters[i].to(at::kDouble);
      const at::Tensor d = 0.25 * before.plain.gradients[i].to(at::kDouble) + 0.01 * p;
      const at::Tensor v = 0.9 * before.decoded(Moment::First, i).to(at::kDouble) + d;
      const at::Tensor wanted = p - double{kRates[i % 3]} * (nesterov ? d + 0.9 * v : v);
      EXPECT_TRUE(at::allclose(bunch.plain.parameters[i].to(at::kDouble), wanted, 1e-6, 1e-6)) << i;
      expect_within(bunch.decoded(Moment::First, i), v, kLeastFirst);
    }
    EXPECT_TRUE(same_bits(bunch.second, before.second));
  }
}

TEST(QuantizedAdamWUpdate, FollowsTheFormulaUpToTheRoundingOfItsStates) {
  CodedBunch bunch{TensorBunch(awkward_sizes())};
  const CodedBunch before = bunch.on(at::kCPU);
  cpu::quantized_adamw_update(bunch.entries(), kInputs, {.weight_decay = 0.05f}, bunch.noise());
  for (std::size_t i = 0; i < bunch.plain.parameters.size(); ++i) {
    const double rate = double{kRates[i % 3]};
    const at::Tensor g = 0.25 * before.plain.gradients[i].to(at::kDouble);
    const at::Tensor m = 0.9 * before.decoded(Moment::First, i).to(at::kDouble) + 0.1 * g;
    const at::Tensor v = 0.999 * before.decoded(Moment::Second, i).to(at::kDouble) + 0.001 * g * g;
    const at::Tensor root = (v / (1 - std::pow(0.999, 3))).sqrt();
    const at::Tensor wanted =
        before.plain.parameters[i].to(at::kDouble) * (1 - rate * double{0.05f}) -
        rate / (1 - std::pow(0.9, 3)) * m / (root + 1e-8);
    EXPECT_TRUE(at::allclose(bunch.plain.parameters[i].to(at::kDouble), wanted, 1e-5, 1e-5)) << i;
    expect_within(bunch.decoded(Moment::First, i), m, kLeastFirst);
    expect_within(bunch.decoded(Moment::Second, i), v, kLeastSecond);
  }
}

TEST(QuantizedUpdate, LeavesTheStateRightOnAverage) {
  const CodedBunch before{TensorBunch({300})};
  const at::Tensor v = 0.9 * before.decoded(Moment::First, 0).to(at::kDouble) +
                       0.25 * before.plain.gradients[0].to(at::kDouble);
  constexpr int draws = 4000;
  at::Tensor sum = at::zeros_like(v);
  for (int seed = 0; seed < draws; ++seed) {
    CodedBunch bunch = before.on(at::kCPU);
    cpu::quantized_sgd_update(bunch.entries(), kInputs, {}, bunch.noise(seed));
    sum += bunch.decoded(Moment::First, 0).to(at::kDouble) - v;
  }
  // Half a level's distance is the largest deviation that random rounding can have.
  const at::Tensor deviation = level_distance(v, kLeastFirst) / 2 / std::sqrt(draws);
  EXPECT_LE(((sum / draws).abs() / deviation).max().item<double>(), 4.5);
}

// A thousandth of a value is far less than half the way to the next level.
TEST(QuantizedUpdate, ForgetsAsSlowlyAsBetaSays) {
  TensorBunch plain({8192});
  plain.gradients[0].zero_();
  plain.states2[0].fill_(1);
  CodedBunch bunch(plain);
  StepControl control;
  for (int step = 1; step <= 2000; ++step) {
    control.applied_steps = step;
    cpu::quantized_adamw_update(
        bunch.entries(), {.learning_rates = kRates.data(), .control = &control}, {}, bunch.noise());
  }
  const double expected = std::pow(0.999, 2000);
  EXPECT_NEAR(bunch.decoded(Moment::Second, 0).mean().item<double>() / expected, 1, 0.02);
}

TEST(QuantizedUpdate, RoundsAnElementAlikeWhateverElseIsUpdated) {
  const CodedBunch together{TensorBunch(awkward_sizes())};
  const CodedBunch apart = together.on(at::kCPU);
  cpu::quantized_adamw_update(together.entries(), kInputs, {}, together.noise());
  std::vector<TensorEntry> entries = apart.entries();
  while (!entries.empty()) {  // as backward hands them out: the last first, a few at a time
    const std::size_t few = std::min<std::size_t>(entries.size(), 7);
    cpu::quantized_adamw_update(std::span(entries).last(few), kInputs, {}, apart.noise());
    entries.resize(entries.size() - few);
  }
  EXPECT_TRUE(apart.same_bits_as(together));
}

TEST(QuantizedUpdate, TakesTheNextStepUnderTheGateOfALayer) {
  const CodedBunch before{TensorBunch(awkward_sizes())};
  const CodedBunch bunch = before.on(at::kCPU), expected = before.on(at::kCPU);
  const std::vector<LayerMoments> moments = {{}, {.count = 5, .nonfinite = 1}, {}};
  const StepControl last = {
      .gradient_multiplier = 0, .loss_scale = 4, .skip = 1, .applied_steps = 2};
  cpu::quantized_adamw_update(bunch.entries(),
                              {.learning_rates = kRates.data(),
                               .control = &last,
                               .moments = moments.data(),
                               .gate = UpdateGate::Layer},
                              {}, bunch.noise());
  cpu::quantized_adamw_update(expected.entries(), kInputs, {}, expected.noise());
  for (std::size_t i = 0; i < before.at_.size(); ++i) {
    const CodedBunch& wanted = i % 3 == 1 ? before : expected;
    EXPECT_TRUE(same_bits(bunch.plain.parameters[i], wanted.plain.parameters[i])) << i;
    for (const Moment moment : {Moment::First, Moment::Second})
      EXPECT_TRUE(same_bits(bunch.decoded(moment, i), wanted.decoded(moment, i))) << i;
  }
}

TEST(QuantizedUpdate, ChangesNoBitOfASkippedStep) {
  const CodedBunch before{TensorBunch(awkward_sizes())};
  const CodedBunch bunch = before.on(at::kCPU);
  const StepControl skipped = {.gradient_multiplier = 0, .skip = 1, .applied_steps = 4};
  const UpdateInputs inputs = {.learning_rates = kRates.data(), .control = &skipped};
  cpu::quantized_sgd_update(bunch.entries(), inputs, {.weight_decay = 0.1f}, bunch.noise());
  cpu::quantized_adamw_update(bunch.entries(), inputs, {.weight_decay = 0.1f}, bunch.noise());
  EXPECT_TRUE(bunch.same_bits_as(before));
}

}  // namespace
}  // namespace triaccel::kernels
