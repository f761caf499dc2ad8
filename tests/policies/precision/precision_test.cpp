#include <gtest/gtest.h>

#include <cmath>

#include "triaccel/policies/precision/order_statistics.h"
#include "triaccel/policies/precision/precision_policy.h"
#include "triaccel/policies/precision/precision_rules.h"

namespace triaccel {
namespace {

constexpr Precision kFp32 = Precision::Fp32;
constexpr Precision kBf16 = Precision::Bf16;
constexpr Precision kFp16 = Precision::Fp16;

/// A layer of 1,000 elements whose gradients have this variance and mean 0.
LayerSignals with_variance(double variance) {
  return {.count = 1000,
          .sum_of_squares = 1000 * variance,
          .absolute_maximum = static_cast<float>(4 * std::sqrt(variance))};
}

TEST(Quantile, IsLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(quantile({3}, 0.7), 3);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 1), 4);
}

TEST(RobustSpread, IsNotMovedByOneOutlier) {
  const RobustSpread spread = robust_spread({1, 2, 3, 4, 1000});
  EXPECT_DOUBLE_EQ(spread.median, 3);
  EXPECT_DOUBLE_EQ(spread.deviation, 1.4826);
  EXPECT_DOUBLE_EQ(spread.score(3 + 2 * 1.4826), 2);
}

TEST(RobustSpread, SaysNothingOfTooFewOrEqualValues) {
  EXPECT_DOUBLE_EQ(robust_spread({1, 100}).score(100), 0);
  EXPECT_DOUBLE_EQ(robust_spread({5, 5, 5, 9}).score(9), 0);
  EXPECT_DOUBLE_EQ(robust_spread({}).score(9), 0);
}

TEST(PrecisionLadder, MapsWhatTheDeviceLacks) {
  EXPECT_EQ((PrecisionLadder{.bf16 = false, .fp16 = true}.nearest(kBf16)), kFp16);
  EXPECT_EQ((PrecisionLadder{.bf16 = false, .fp16 = false}.nearest(kBf16)), kFp32);
  EXPECT_EQ((PrecisionLadder{.bf16 = true, .fp16 = false}.nearest(kFp16)), kBf16);
  EXPECT_EQ((PrecisionLadder{.bf16 = false, .fp16 = false}.nearest(kFp16)), kFp32);
  EXPECT_EQ((PrecisionLadder{}.nearest(kFp16)), kFp16);
  EXPECT_EQ((PrecisionLadder{}.nearest(kBf16)), kBf16);
}

TEST(PrecisionLadder, ClimbsTheRungsThatExist) {
  EXPECT_EQ((PrecisionLadder{}.up(kFp16)), kBf16);
  EXPECT_EQ((PrecisionLadder{}.up(kBf16)), kFp32);
  EXPECT_EQ((PrecisionLadder{}.up(kFp32)), kFp32);
  EXPECT_EQ((PrecisionLadder{.bf16 = false}.up(kFp16)), kFp32);
  EXPECT_EQ(higher(kFp16, kBf16), kBf16);
  EXPECT_EQ(higher(kFp32, kBf16), kFp32);
}

TEST(GradientVariance, StartsAtTheFirstValueAndAverages) {
  GradientVariance variance(1, 0.9, /*starts_at_first=*/true);
  EXPECT_FALSE(variance.known(0));
  EXPECT_EQ(variance.add({with_variance(2)}), 1);
  EXPECT_DOUBLE_EQ(variance[0], 2);
  EXPECT_EQ(variance.add({with_variance(4)}), 0);
  EXPECT_DOUBLE_EQ(variance[0], 0.9 * 2 + 0.1 * 4);
}

TEST(GradientVariance, StartsAtZeroAsThePaperLeavesItOpen) {
  GradientVariance variance(1, 0.9, /*starts_at_first=*/false);
  variance.add({with_variance(2)});
  EXPECT_DOUBLE_EQ(variance[0], 0.1 * 2);
}

TEST(GradientVariance, TakesTheMeanOut) {
  GradientVariance variance(1, 0, true);
  variance.add({{.count = 4, .sum = 8, .sum_of_squares = 20}});
  EXPECT_DOUBLE_EQ(variance[0], 1);
}

TEST(GradientVariance, LeavesLayersWithoutSoundGradientsAlone) {
  GradientVariance variance(3, 0.5, true);
  variance.add({with_variance(1), with_variance(1), with_variance(1)});
  variance.add({{}, {.count = 10, .sum_of_squares = 1e30, .nonfinite = 1}, with_variance(3)});
  EXPECT_DOUBLE_EQ(variance[0], 1);
  EXPECT_DOUBLE_EQ(variance[1], 1);
  EXPECT_DOUBLE_EQ(variance[2], 2);
}

TEST(PaperPrecision, HasThreeRungsAndHalfOpenIntervals) {
  const VarianceThresholds tau{.low = 1e-6, .high = 1e-3};
  EXPECT_EQ(paper_precision(9e-7, tau), kFp16);
  EXPECT_EQ(paper_precision(1e-6, tau), kBf16);
  EXPECT_EQ(paper_precision(9e-4, tau), kBf16);
  EXPECT_EQ(paper_precision(1e-3, tau), kFp32);
}

TEST(ThresholdsFrom, AreQuantilesOfTheLogarithm) {
  const VarianceThresholds tau = thresholds_from({1e-8, 1e-6, 1e-4, 0}, 0.25, 1);
  EXPECT_NEAR(std::log10(tau.low), -7, 1e-9);
  EXPECT_NEAR(std::log10(tau.high), -4, 1e-9);
}

TEST(ThresholdsFrom, KeepBf16WhereNothingHasVariance) {
  EXPECT_EQ(paper_precision(0, thresholds_from({0, 0}, 0.25, 0.9)), kBf16);
}

TEST(RelativeRoundingError, IsThatOfTheFormats) {
  EXPECT_NEAR(std::sqrt(relative_rounding_error(kBf16)), 1.66e-3, 1e-5);
  EXPECT_NEAR(std::sqrt(relative_rounding_error(kFp16)), 2.07e-4, 1e-6);
  EXPECT_EQ(relative_rounding_error(kFp32), 0);
}

struct Fp16Case {
  LayerSignals signals;
  Precision current;
  bool fits;
};

TEST(FitsFp16, TestsZerosAndHeadroom) {
  const PrecisionOptions options;  // 1e-3 zeros, 3 bits, hysteresis 0.2
  const LayerSignals good{.count = 10000, .absolute_maximum = 1, .fp16_scale = 1024};
  const auto with = [&good](std::int64_t zeros, float largest) {
    LayerSignals signals = good;
    signals.fp16_zeros = zeros;
    signals.absolute_maximum = largest;
    return signals;
  };
  LayerSignals infinite = good;
  infinite.nonfinite = 1;
  const Fp16Case cases[] = {
      {good, kBf16, true},           {with(7, 1), kBf16, true},
      {with(8, 1), kBf16, false},  // 0.8e-3: enough to stay, not to come in
      {with(8, 1), kFp16, true},     {with(10, 1), kFp16, false},  // 1e-3
      {with(0, 7.9f), kFp16, true},                                // 65504 / (1024 * 7.9) = 2^3.02
      {with(0, 8.1f), kFp16, false}, {with(0, 7.9f), kBf16, false},  // coming in takes 3.6 bits
      {with(0, 5.2f), kBf16, true},  {with(0, 0), kBf16, true},
      {infinite, kFp16, false},      {{}, kFp16, false},
  };
  for (const Fp16Case& c : cases)
    EXPECT_EQ(fits_fp16({.signals = c.signals, .current = c.current}, options), c.fits)
        << c.signals.fp16_zeros << " zeros, maximum " << c.signals.absolute_maximum << " in "
        << name_of(c.current);
}

TEST(RoundingShows, ComparesWithTheNoiseOfTheMiniBatch) {
  const double rounding = 3 * relative_rounding_error(kBf16) * 100;
  PrecisionEvidence evidence{.signals = {.count = 10, .sum_of_squares = 100},
                             .gradient_noise = 64 * rounding * 1.01,
                             .batch_size = 64};
  EXPECT_FALSE(rounding_shows(kBf16, evidence, 0.2));
  evidence.current = kFp32;  // what is up stays up until the noise is clearly above
  EXPECT_TRUE(rounding_shows(kBf16, evidence, 0.2));
  evidence = {
      .signals = evidence.signals, .gradient_noise = 64 * rounding * 0.99, .batch_size = 64};
  EXPECT_TRUE(rounding_shows(kBf16, evidence, 0.2));
  EXPECT_FALSE(rounding_shows(kFp16, evidence, 0.2));
  EXPECT_FALSE(rounding_shows(kFp32, evidence, 0.2));
  evidence.gradient_noise = 0;
  EXPECT_FALSE(rounding_shows(kBf16, evidence, 0.2)) << "without a measurement nothing is said";
}

TEST(RobustPrecision, TakesEveryBranch) {
  const LayerSignals good{.count = 10000, .sum_of_squares = 1, .absolute_maximum = 1};
  LayerSignals zeros = good;
  zeros.fp16_zeros = 5000;
  const PrecisionOptions plain;
  const PrecisionOptions fp16{.prefer_fp16 = true};
  const PrecisionOptions no_bf16{.has_bf16 = false};
  const PrecisionOptions none{.has_bf16 = false, .has_fp16 = false};
  EXPECT_EQ(robust_precision({.signals = good}, plain), kBf16);
  EXPECT_EQ(robust_precision({.signals = good}, fp16), kFp16);
  EXPECT_EQ(robust_precision({.signals = zeros}, fp16), kBf16);
  EXPECT_EQ(robust_precision({.signals = good, .variance_score = 0.9}, fp16), kBf16);
  EXPECT_EQ(robust_precision({.signals = good, .variance_score = 0.9, .current = kFp16}, fp16),
            kFp16);
  EXPECT_EQ(robust_precision({.signals = good, .variance_score = 1.1, .current = kFp16}, fp16),
            kBf16);
  EXPECT_EQ(robust_precision({.signals = good}, no_bf16), kFp16);
  EXPECT_EQ(robust_precision({.signals = zeros}, no_bf16), kFp32);
  EXPECT_EQ(robust_precision({.signals = {}}, no_bf16), kFp16);
  EXPECT_EQ(robust_precision({.signals = good}, none), kFp32);
  EXPECT_EQ(robust_precision({.signals = good, .gradient_noise = 1e-12}, plain), kFp32);
}

TEST(VarianceScores, CompareLayersOfAKind) {
  const std::vector<LayerKind> kinds{LayerKind::Convolution, LayerKind::Convolution,
                                     LayerKind::Convolution, LayerKind::Linear};
  GradientVariance variance(4, 0, true);
  variance.add({with_variance(1e-6), with_variance(1e-5), with_variance(1e-4), with_variance(1)});
  const std::vector<double> scores = variance_scores(variance, kinds);
  EXPECT_NEAR(scores[0], -1 / 1.4826, 1e-9);
  EXPECT_NEAR(scores[1], 0, 1e-9);
  EXPECT_NEAR(scores[2], 1 / 1.4826, 1e-9);
  EXPECT_EQ(scores[3], 0) << "the only one of its kind";
}

/// The policy with a report's worth of calm gradients for each of its layers.
struct PrecisionCase {
  ControlOptions options;
  std::size_t layers = 1;
  PrecisionPolicy policy{options, std::vector<LayerKind>(layers, LayerKind::Linear)};
  StepPlan plan{.batch_size = 8,
                .micro_batch_size = 8,
                .layers = std::vector<LayerPlan>(layers, LayerPlan{.compute = kBf16})};
  StepReport report{.layers = std::vector<LayerSignals>(layers, with_variance(1))};
  std::vector<bool> promoted = std::vector<bool>(layers, false);
  PolicyEvents events = {};

  Precision tick(std::size_t layer = 0) {
    events.clear();
    policy.apply(report, promoted, GradientNoise(layers), plan, events);
    return plan.layers[layer].compute;
  }
  int layers_in(Precision p) const {
    int count = 0;
    for (const LayerPlan& layer : plan.layers) count += layer.compute == p ? 1 : 0;
    return count;
  }
};

ControlOptions paper_with_thresholds(double low, double high) {
  return {.set = PolicySet::Paper,
          .precision = {.beta = 0, .automatic = false, .tau_low = low, .tau_high = high}};
}

TEST(PaperPolicy, FollowsTheThresholdsAtOnce) {
  PrecisionCase c{.options = paper_with_thresholds(0.5, 5)};
  EXPECT_EQ(c.tick(), kBf16);
  EXPECT_EQ(c.events.size(), 1u) << "the average starts at its first value";
  c.report.layers[0] = with_variance(0.1);
  EXPECT_EQ(c.tick(), kFp16);
  c.report.layers[0] = with_variance(10);
  EXPECT_EQ(c.tick(), kFp32);
  c.report.layers[0] = with_variance(1);
  EXPECT_EQ(c.tick(), kBf16);
}

TEST(PaperPolicy, StaysBf16UntilTheWarmUpHasGivenThresholds) {
  PrecisionCase c{.options = {.set = PolicySet::Paper, .precision = {.warmup_ticks = 2}},
                  .layers = 4};
  for (std::size_t l = 0; l < 4; ++l)
    c.report.layers[l] = with_variance(std::pow(10.0, static_cast<double>(l)));
  c.tick();
  c.tick();
  EXPECT_EQ(c.layers_in(kBf16), 4);
  c.tick();
  EXPECT_EQ(c.plan.layers[0].compute, kFp16);
  EXPECT_EQ(c.plan.layers[1].compute, kBf16);
  EXPECT_EQ(c.plan.layers[3].compute, kFp32);
}

TEST(PaperPolicy, MapsRungsTheDeviceLacks) {
  ControlOptions options = paper_with_thresholds(0.5, 5);
  options.precision.has_bf16 = false;
  PrecisionCase c{.options = options};
  EXPECT_EQ(c.tick(), kFp16);
  c.promoted[0] = true;
  EXPECT_EQ(c.tick(), kFp32);
}

TEST(PaperPolicy, LiftsALayerOfHighCurvatureOneRung) {
  PrecisionCase c{.options = paper_with_thresholds(2, 5)};
  EXPECT_EQ(c.tick(), kFp16);
  c.promoted[0] = true;
  EXPECT_EQ(c.tick(), kBf16);
  c.promoted[0] = false;
  EXPECT_EQ(c.tick(), kFp16);
}

TEST(RobustPolicy, GoesUpAtOnceAndDownAfterTheDwell) {
  PrecisionCase c{.options = {.precision = {.dwell_ticks = 3}}};
  EXPECT_EQ(c.tick(), kBf16);
  c.promoted[0] = true;
  EXPECT_EQ(c.tick(), kFp32);
  c.promoted[0] = false;
  EXPECT_EQ(c.tick(), kFp32);
  EXPECT_EQ(c.tick(), kFp32);
  EXPECT_EQ(c.tick(), kBf16);
}

TEST(RobustPolicy, ChangesFewLayersATickAndTheOthersLater) {
  PrecisionCase c{.options = {.precision = {.changes_per_tick = 2}}, .layers = 5};
  c.promoted.assign(5, true);
  c.tick();
  EXPECT_EQ(c.layers_in(kFp32), 2);
  c.tick();
  EXPECT_EQ(c.layers_in(kFp32), 4);
  c.tick();
  EXPECT_EQ(c.layers_in(kFp32), 5);
}

TEST(RobustPolicy, LetsLayersUpBeforeOthersComeDown) {
  PrecisionCase c{.options = {.precision = {.dwell_ticks = 0, .changes_per_tick = 1}}, .layers = 2};
  c.plan.layers[0].compute = kFp32;  // would come down
  c.promoted[1] = true;              // must go up
  c.tick();
  EXPECT_EQ(c.layers_in(kFp32), 2);
  c.tick();
  EXPECT_EQ(c.plan.layers[0].compute, kBf16);
}

TEST(RobustPolicy, LeavesIntegerLayersAlone) {
  PrecisionCase c{.options = {}};
  c.plan.layers[0].compute = Precision::Int8;
  c.promoted[0] = true;
  EXPECT_EQ(c.tick(), Precision::Int8);
}

TEST(NonfiniteWatch, LiftsEveryLayerThatKeepsOverflowingWhateverTheChangeBudget) {
  PrecisionCase c{.options = {.precision = {.changes_per_tick = 1, .nonfinite_ticks = 5}},
                  .layers = 3};
  for (LayerSignals& layer : c.report.layers) layer.nonfinite = 1;
  c.report.skipped_steps = 2;
  c.tick();
  EXPECT_EQ(c.layers_in(kFp32), 0) << "two skipped steps are not enough";
  c.tick();
  EXPECT_EQ(c.layers_in(kFp32), 3);
  EXPECT_FALSE(c.events.empty());
}

TEST(NonfiniteWatch, HoldsTheRungForItsTime) {
  PrecisionCase c{.options = {.precision = {.dwell_ticks = 0, .nonfinite_ticks = 5}}};
  c.report.layers[0].nonfinite = 1;
  c.report.skipped_steps = c.report.consecutive_skips = 3;
  EXPECT_EQ(c.tick(), kFp32);
  c.report = {.layers = {with_variance(1)}};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(c.tick(), kFp32) << i;
  EXPECT_EQ(c.tick(), kBf16);
}

TEST(NonfiniteWatch, ForgetsSkipsThatDidNotComeInARow) {
  PrecisionCase c{.options = {}};
  for (int i = 0; i < 3; ++i) {
    c.report.layers[0].nonfinite = 1;
    c.report.skipped_steps = 2;
    EXPECT_EQ(c.tick(), kBf16);
    c.report = {.layers = {with_variance(1)}};
    EXPECT_EQ(c.tick(), kBf16);
  }
}

TEST(NonfiniteWatch, LiftsTheLayerThatBeganItAndTheOthersOnlyWhenThatDidNotHelp) {
  PrecisionCase c{.options = {}, .layers = 3};
  for (LayerSignals& layer : c.report.layers) layer.nonfinite = 1;
  c.report.skipped_steps = 3;
  c.report.skipped_layer = 1;
  c.tick();
  EXPECT_EQ(c.layers_in(kFp32), 1);
  EXPECT_EQ(c.plan.layers[1].compute, kFp32);
  c.tick();
  EXPECT_EQ(c.layers_in(kFp32), 3);
}

// A forward overflow makes every gradient non-finite, that of the last layer first.
TEST(NonfiniteWatch, SuspectsEveryFp16LayerWhenTheLossItselfIsNoNumber) {
  PrecisionCase c{.options = paper_with_thresholds(2, 5), .layers = 3};
  c.tick();
  EXPECT_EQ(c.layers_in(kFp16), 3);
  c.plan.layers[2].compute = kFp32;
  for (LayerSignals& layer : c.report.layers) layer.nonfinite = 1;
  c.report.layers[2] = with_variance(10);
  c.report.skipped_steps = c.report.consecutive_skips = 3;
  c.report.skipped_layer = 1;
  c.report.nonfinite_losses = 3;
  c.tick();
  EXPECT_EQ(c.layers_in(kBf16), 2);
  EXPECT_EQ(c.plan.layers[2].compute, kFp32);
}

TEST(NonfiniteWatch, LeavesALossScaleThatCanStillFallToItsWork) {
  PrecisionCase c{.options = {}};
  c.report.layers[0].nonfinite = 1;
  c.report.skipped_steps = c.report.consecutive_skips = 5;
  c.report.loss_scale = 2048;
  EXPECT_EQ(c.tick(), kBf16);
  c.report.loss_scale = 1;
  EXPECT_EQ(c.tick(), kFp32);
}

TEST(NonfiniteWatch, IsAGuardOfThePapersSet) {
  ControlOptions options = paper_with_thresholds(2, 5);
  options.guards.nonfinite = false;
  for (const bool guarded : {true, false}) {
    options.guards.nonfinite = guarded;
    PrecisionCase c{.options = options};
    EXPECT_EQ(c.tick(), kFp16);
    c.report.layers[0].nonfinite = 1;
    c.report.skipped_steps = 3;
    EXPECT_EQ(c.tick(), guarded ? kBf16 : kFp16);
  }
}

}  // namespace
}  // namespace triaccel
