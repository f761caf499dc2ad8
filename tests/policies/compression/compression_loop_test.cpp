#include "triaccel/policies/compression/compression_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"

namespace triaccel {
namespace {

double ratio_of(const CompressionState& state, const LoopOptions& options = {}) {
  return orders_of(state, options).ratio;
}

CompressionTick tick_with_noise(double share) {
  return {.compression_noise = share, .batch_noise = 1};
}

CompressionState ticked(const CompressionState& state, const CompressionTick& tick,
                        const LoopOptions& options = {}) {
  PolicyEvents events;
  return after_tick(state, tick, options, events);
}

/// Enough calm ticks for a spike to be one.
CompressionState with_losses(double loss, const LoopOptions& options = {}) {
  CompressionState state = first_state(options);
  for (int i = 0; i < 20; ++i)
    state = ticked(state, {.step = i, .loss = loss + 0.01 * (i % 3)}, options);
  return state;
}

TEST(CompressionLoop, StartsAtTheTargetOrWhereItIsTold) {
  EXPECT_DOUBLE_EQ(ratio_of(first_state({})), 10.2);
  const LoopOptions bad{.start_ratio = 30};
  EXPECT_DOUBLE_EQ(ratio_of(first_state(bad), bad), 30);
}

TEST(CompressionLoop, GrowsWhereCompressionAddsTooMuchNoise) {
  PolicyEvents events;
  const CompressionState state =
      after_tick(first_state({}), tick_with_noise(0.06), LoopOptions{}, events);
  EXPECT_DOUBLE_EQ(ratio_of(state), 10.2 / 1.08);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(
      events[0],
      "compression 10.2x -> 9.44x: compression adds 6 % to the mini-batch's noise, target 5 %");
}

TEST(CompressionLoop, GrowsAtOnceAsFarAsMuchNoiseAsksFor) {
  const auto ratio_after = [](double noise) {
    return ratio_of(ticked(first_state({}), tick_with_noise(noise)), {});
  };
  EXPECT_DOUBLE_EQ(ratio_after(0.05 * 4), 10.2 / std::sqrt(2)) << "noise falls as bytes^-4";
  EXPECT_DOUBLE_EQ(ratio_after(1), 10.2 / 1.5) << "but no more than that in one go";
}

TEST(CompressionLoop, MayRiseAgainWithBetterPlansButNotAgainstAccuracy) {
  const LoopOptions free{.most_ratio = 32};
  PolicyEvents events;
  const CompressionState failed =
      after_failed_rise(first_state(free), 10.2, /*all_the_way=*/true, free, events);
  EXPECT_TRUE(orders_of(failed, free).frozen);
  events.clear();
  EXPECT_FALSE(orders_of(after_better_plans(failed, events), free).frozen);
  EXPECT_EQ(events.size(), 1u);
  CompressionState guarded = after_epoch(first_state(free), {.accuracy = 80}, free, events);
  guarded = after_epoch(guarded, {.accuracy = 70}, free, events);
  ASSERT_TRUE(orders_of(guarded, free).frozen);
  events.clear();
  EXPECT_TRUE(orders_of(after_better_plans(guarded, events), free).frozen);
  guarded = after_failed_rise(guarded, 10.2, /*all_the_way=*/true, free, events);
  EXPECT_TRUE(orders_of(after_better_plans(guarded, events), free).frozen);
}

TEST(CompressionLoop, StaysInItsDeadBandAndAtItsFloor) {
  const CompressionOrders first = orders_of(first_state({}), {});
  for (const double noise : {0.02, 0.03, 0.05})
    EXPECT_EQ(orders_of(ticked(first_state({}), tick_with_noise(noise)), {}), first) << noise;
  EXPECT_EQ(orders_of(ticked(first_state({}), tick_with_noise(0.001)), {}), first)
      << "the target is the floor";
  const LoopOptions below{.start_ratio = 6};
  CompressionState state = ticked(first_state(below), tick_with_noise(0.001), below);
  EXPECT_DOUBLE_EQ(ratio_of(state, below), 6 / 0.75) << "no further at once";
  state = ticked(state, tick_with_noise(0.001), below);
  EXPECT_DOUBLE_EQ(ratio_of(state, below), 10.2);
}

TEST(CompressionLoop, GoesWhereTheNoiseIsHalfItsTargetWhenTheRatioIsFree) {
  const LoopOptions free{.most_ratio = 32};
  const auto after = [&](double noise) {
    return ratio_of(ticked(first_state(free), tick_with_noise(noise), free), free);
  };
  EXPECT_NEAR(after(0.01), 10.2 * std::pow(0.025 / 0.01, 0.25), 1e-9);
  EXPECT_DOUBLE_EQ(after(0.03), 10.2) << "in its band";
  EXPECT_NEAR(after(0.06), 10.2 * std::pow(0.025 / 0.06, 0.25), 1e-9);
  EXPECT_DOUBLE_EQ(after(1e-6), 10.2 / 0.75) << "no further at once";
  EXPECT_DOUBLE_EQ(after(10), 10.2 / 1.5);
  CompressionState state = first_state(free);
  for (int i = 0; i < 20; ++i) state = ticked(state, tick_with_noise(1e-6), free);
  EXPECT_DOUBLE_EQ(ratio_of(state, free), 32);
}

TEST(CompressionLoop, DoesNotShrinkAfterQuietEpochsAboveHalfTheNoise) {
  const LoopOptions free{.most_ratio = 32};
  CompressionState state = ticked(first_state(free), tick_with_noise(0.03), free);
  PolicyEvents events;
  for (int i = 0; i < 6; ++i) state = after_epoch(state, {.accuracy = 65}, free, events);
  EXPECT_DOUBLE_EQ(ratio_of(state, free), 10.2);
}

TEST(CompressionLoop, DoesNothingWithoutMeasurements) {
  EXPECT_EQ(ticked(first_state({}), {}), first_state({}));
  EXPECT_EQ(ticked(first_state({}), {.compression_noise = 1, .batch_noise = 0}), first_state({}));
  const LoopOptions off{.adapt = false};
  EXPECT_EQ(ticked(first_state(off), tick_with_noise(1), off), first_state(off));
}

TEST(CompressionLoop, GrowsNoFurtherThanItsLeastRatioAndSaysSoOnce) {
  CompressionState state = first_state({});
  PolicyEvents events;
  for (int i = 0; i < 100; ++i) state = after_tick(state, tick_with_noise(1), {}, events);
  EXPECT_DOUBLE_EQ(ratio_of(state), 4);
  EXPECT_NE(events.back().find("compression stays at 4x, the lowest allowed"), std::string::npos);
  EXPECT_LT(events.size(), 20u);
}

TEST(CompressionLoop, SaysThatAccuracyCannotLowerItsLeastRatio) {
  const LoopOptions options{.target_ratio = 4};
  PolicyEvents events;
  CompressionState state = after_epoch(first_state(options), {.accuracy = 70}, options, events);
  state = after_epoch(state, {.accuracy = 60}, options, events);
  EXPECT_DOUBLE_EQ(ratio_of(state, options), 4);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].find("compression stays at 4x, the lowest allowed: accuracy 60 %"),
            std::string::npos)
      << events[0];
}

TEST(CompressionLoop, TakesNoiseThatIsNoNumberForTooMuch) {
  PolicyEvents events;
  const CompressionState state = after_tick(
      first_state({}), tick_with_noise(std::numeric_limits<double>::infinity()), {}, events);
  EXPECT_DOUBLE_EQ(ratio_of(state), 10.2 / 1.5);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].find("was not finite"), std::string::npos);
  EXPECT_EQ(noise_over_target(0, 0, {}), 0);
  EXPECT_GT(noise_over_target(std::nan(""), 1, {}), 1e300);
}

TEST(CompressionLoop, GoesBackFromARatioThatIsTooNoisyAndStaysThereForAWhile) {
  const LoopOptions free{.most_ratio = 32, .frozen_epochs = 2};
  CompressionState risen = ticked(first_state(free), tick_with_noise(0.0001), free);
  EXPECT_DOUBLE_EQ(ratio_of(risen, free), 10.2 / 0.75);
  PolicyEvents events;
  const CompressionState half = after_failed_rise(risen, 10.2, /*all_the_way=*/false, free, events);
  EXPECT_DOUBLE_EQ(ratio_of(half, free), 10.2 / std::sqrt(0.75));
  const CompressionState back = after_failed_rise(half, 10.2, /*all_the_way=*/true, free, events);
  EXPECT_DOUBLE_EQ(ratio_of(back, free), 10.2);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_NE(events[1].find("will not rise for 2 epochs"), std::string::npos);
  CompressionState later = back;
  for (int epoch = 0; epoch < 2; ++epoch) {
    later = ticked(later, tick_with_noise(0.0001), free);
    EXPECT_DOUBLE_EQ(ratio_of(later, free), 10.2) << epoch;
    later = after_epoch(later, {}, free, events);
  }
  EXPECT_GT(ratio_of(ticked(later, tick_with_noise(0.0001), free), free), 10.2);
}

TEST(CompressionLoop, FallsBackToLosslessAfterASpike) {
  const CompressionState calm = with_losses(2);
  PolicyEvents events;
  CompressionState state = after_tick(calm, {.step = 100, .loss = 2.5}, {}, events);
  EXPECT_TRUE(orders_of(state, {}).lossless);
  EXPECT_DOUBLE_EQ(ratio_of(state), 10.2 / 1.5);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].find("deviations above its mean"), std::string::npos);
  EXPECT_NE(events[0].find("lossless for 50 steps first"), std::string::npos);
  state = ticked(state, {.step = 149, .loss = 2.5});
  EXPECT_TRUE(orders_of(state, {}).lossless);
  state = after_tick(state, {.step = 150, .loss = 2.5}, {}, events);
  EXPECT_FALSE(orders_of(state, {}).lossless);
  EXPECT_EQ(events.back(), "compression resumed at 6.8x");
}

TEST(CompressionLoop, ContinuesAsBeforeAfterASpikeThatCompressionCannotHaveCaused) {
  const CompressionTick measured = tick_with_noise(0.0001);
  CompressionState state = ticked(with_losses(2), measured);
  const double before = ratio_of(state);
  PolicyEvents events;
  state = after_tick(state, {.step = 100, .loss = 2.5}, {}, events);
  EXPECT_TRUE(orders_of(state, {}).lossless);
  EXPECT_EQ(ratio_of(state), before);
  EXPECT_NE(events.back().find("so the ratio stays"), std::string::npos) << events.back();
  state = ticked(with_losses(2), measured);
  state = ticked(state, {.step = 100, .nonfinite = true});
  EXPECT_LT(ratio_of(state), before) << "what is not finite is answered in any case";
}

TEST(CompressionLoop, BlamesASpikeOnTheNoiseOfTheSameInterval) {
  PolicyEvents events;
  const CompressionState calm = ticked(with_losses(1), tick_with_noise(0.001));
  CompressionTick spike = tick_with_noise(0.5);
  spike.loss = 30;
  EXPECT_LT(ratio_of(after_tick(calm, spike, {}, events)), ratio_of(calm));
  spike.compression_noise = 0.001;
  EXPECT_EQ(ratio_of(after_tick(calm, spike, {}, events)), ratio_of(calm));
}

TEST(CompressionLoop, TakesNoSpikeForOneThatNoiseExplains) {
  EXPECT_FALSE(orders_of(ticked(with_losses(2), {.step = 100, .loss = 2.1}), {}).lossless);
  EXPECT_FALSE(orders_of(ticked(first_state({}), {.loss = 100}), {}).lossless) << "the first";
}

TEST(CompressionLoop, FallsBackAtOnceWhenSomethingIsNotFinite) {
  PolicyEvents events;
  const CompressionState state =
      after_tick(first_state({}), {.step = 7, .nonfinite = true}, {}, events);
  EXPECT_TRUE(orders_of(state, {}).lossless);
  EXPECT_EQ(events.size(), 1u);
  const CompressionState again = after_tick(state, {.step = 9, .nonfinite = true}, {}, events);
  EXPECT_EQ(again.bytes, state.bytes) << "compression did not cause it";
  EXPECT_EQ(again.lossless_until, 59);
}

TEST(CompressionLoop, AnswersADropOfAccuracy) {
  PolicyEvents events;
  CompressionState state = after_epoch(first_state({}), {.accuracy = 70}, {}, events);
  state = after_epoch(state, {.accuracy = 69.6}, {}, events);
  EXPECT_TRUE(events.empty()) << "within the guard";
  state = after_epoch(state, {.accuracy = 69}, {}, events);
  EXPECT_DOUBLE_EQ(ratio_of(state), 10.2 / 1.25);
  EXPECT_TRUE(orders_of(state, {}).frozen);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0],
            "compression 10.2x -> 8.16x: accuracy 69 % is 1 points below the best; the ratio will "
            "not rise for "
            "3 epochs");
  EXPECT_EQ(ticked(state, tick_with_noise(0.001)).bytes, state.bytes) << "frozen";
  for (int i = 0; i < 3; ++i) state = after_epoch(state, {.accuracy = 70}, {}, events);
  EXPECT_FALSE(orders_of(state, {}).frozen);
}

TEST(CompressionLoop, ComparesWithAReferenceWhereThereIsOne) {
  PolicyEvents events;
  CompressionState state = after_epoch(first_state({}), {.accuracy = 70}, {}, events);
  state = after_epoch(state, {.accuracy = 60, .reference = 60.2}, {}, events);
  EXPECT_TRUE(events.empty()) << "the reference drops as well";
  state = after_epoch(state, {.accuracy = 71, .reference = 72}, {}, events);
  EXPECT_EQ(events.size(), 1u);
}

TEST(CompressionLoop, WatchesTheLossWhereThereIsNoAccuracy) {
  PolicyEvents events;
  CompressionState state = after_epoch(with_losses(2), {}, {}, events);
  for (int i = 0; i < 60; ++i)
    state = after_tick(state, {.step = 100 + i, .loss = 2.01 + 0.01 * i}, {}, events);
  EXPECT_TRUE(events.empty());
  state = after_epoch(state, {}, {}, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NE(events[0].find("training loss"), std::string::npos);
}

TEST(CompressionLoop, ShrinksAfterQuietEpochs) {
  const LoopOptions options{.most_ratio = 12};
  CompressionState state = first_state(options);
  PolicyEvents events;
  for (const double accuracy : {50, 60, 65}) {
    EXPECT_TRUE(events.empty());
    state = after_epoch(state, {.accuracy = accuracy}, options, events);
  }
  EXPECT_DOUBLE_EQ(ratio_of(state, options), 10.2 / 0.95);
  EXPECT_NE(events[0].find("3 quiet epochs"), std::string::npos);
  for (int i = 0; i < 30; ++i) state = after_epoch(state, {.accuracy = 65}, options, events);
  EXPECT_DOUBLE_EQ(ratio_of(state, options), 12) << "never below the floor";
}

/// Training as the loop sees it: codes of few bits add noise, and noise costs accuracy.
struct SimulatedTraining {
  double lowest_ratio = 100, highest_ratio = 0, last_ratio = 0, last_accuracy = 0;
  PolicyEvents events = {};
};

SimulatedTraining train(const LoopOptions& options, int epochs = 30) {
  CompressionState state = first_state(options);
  SimulatedTraining run;
  std::int64_t step = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double noise = 0;
    for (int tick = 0; tick < 5; ++tick) {
      const double bits = 32 / ratio_of(state, options) - 1;
      noise = 1.25 * std::pow(4, -bits) * 2;
      step += 200;
      const double wobble = unit_float(random_words(3, static_cast<std::uint64_t>(step)).words[0]);
      state = after_tick(state,
                         {.step = step,
                          .compression_noise = noise,
                          .batch_noise = 1.25,
                          .loss = 2 * std::exp(-epoch / 8.0) + 0.05 * wobble},
                         options, run.events);
      run.lowest_ratio = std::min(run.lowest_ratio, ratio_of(state, options));
      run.highest_ratio = std::max(run.highest_ratio, ratio_of(state, options));
    }
    run.last_accuracy = 90 * (1 - std::exp(-(epoch + 1) / 6.0)) - 20 * noise;
    state = after_epoch(state, {.accuracy = run.last_accuracy}, options, run.events);
  }
  run.last_ratio = ratio_of(state, options);
  return run;
}

TEST(CompressionLoop, RecoversFromABadStart) {
  const SimulatedTraining run = train({.start_ratio = 24});
  EXPECT_LT(run.last_ratio, 10.3);
  EXPECT_GT(run.last_ratio, 7);
  EXPECT_FALSE(run.events.empty());
}

TEST(CompressionLoop, ShrinksFromAGoodStart) {
  const SimulatedTraining run = train({.start_ratio = 4}, 60);
  EXPECT_GT(run.last_ratio, 8);
  EXPECT_LE(run.highest_ratio, 10.2);
}

TEST(CompressionLoop, ConvergesWhereTheNoiseIsInItsBand) {
  const SimulatedTraining run = train({.most_ratio = 20}, 4);
  const double noise = std::pow(4, -(32 / run.last_ratio - 1)) * 2;
  EXPECT_LT(noise, 0.06);
  EXPECT_GT(noise, 0.05 / 5);
}

StateMap as_map(const std::vector<StateView>& views) {
  StateMap map;
  for (const StateView& view : views) map[view.name] = view;
  return map;
}

TEST(CompressionLoop, ReadsItsStateBack) {
  CompressionState state = with_losses(2);
  PolicyEvents events;
  state = after_epoch(state, {.accuracy = 70}, {}, events);
  state = after_epoch(state, {.accuracy = 60}, {}, events);
  state = ticked(state, {.step = 100, .nonfinite = true});
  EXPECT_EQ(compression_from(as_map(compression_state(state))), state);
  EXPECT_THROW(compression_from({}), StorageError);
}

TEST(CompressionOptions, NameTheFieldThatIsWrong) {
  EXPECT_NO_THROW(check_options(CompressionOptions{}));
  const auto message_of = [](const CompressionOptions& options) -> std::string {
    try {
      check_options(options);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  EXPECT_NE(message_of({.loop = {.target_ratio = 0.5}}).find("loop.target_ratio"),
            std::string::npos);
  EXPECT_NE(message_of({.loop = {.least_ratio = 11}}).find("loop.least_ratio"), std::string::npos);
  EXPECT_NE(message_of({.loop = {.most_ratio = 9}}).find("loop.most_ratio"), std::string::npos);
  EXPECT_NE(message_of({.loop = {.guard_points = NAN}}).find("loop.guard_points"),
            std::string::npos);
  EXPECT_NE(message_of({.codecs = {.attention_bits = 9}}).find("codecs.attention_bits"),
            std::string::npos);
  EXPECT_NE(message_of({.error_bound = 0}).find("error_bound"), std::string::npos);
}

TEST(ErrorBound, FollowsTheBytesTheLoopAllows) {
  CompressionState state = first_state({});
  EXPECT_DOUBLE_EQ(error_bound_of(state, 0.01), 0.01);
  state.bytes = 2;
  EXPECT_DOUBLE_EQ(error_bound_of(state, 0.01), 0.01 / 16);
}

}  // namespace
}  // namespace triaccel
