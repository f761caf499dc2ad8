#include "triaccel/policies/compression/activation_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "tests/policies/compression/saved_network.h"

namespace triaccel {
namespace {

/// Measures a network of eight saved tensors in two layers, with the noise that `noise_of` says.
struct SimulatedProfiler {
  std::function<CompressionNoise(const StepPlan&)> noise_of;
  std::function<double(std::size_t)> error_of = {};  // of the gradient, by place in a request
  double scale = 1;                                  // of the first tensor's range
  std::int64_t channels = 0;                         // of the first tensor; 0: as they are
  bool attention = false;                            // four tensors of it in place of the network
  std::vector<ProfileKind> asked = {};
  std::vector<StepPlan> tried = {};  // of noise

  ActivationProfile measure(const ProfileRequest& request, const StepPlan& plan) {
    asked.push_back(request.kind);
    ActivationProfile found{.kind = request.kind};
    if (request.kind == ProfileKind::Noise) {
      tried.push_back(plan);
      found.noise = noise_of(plan);
    }
    for (std::size_t i = 0; i < request.plans.size(); ++i) found.errors.push_back(error_of(i));
    if (request.kind != ProfileKind::Values) return found;
    found.tensors = saved_resnet(4);
    if (attention) {
      found.tensors.assign(4, saved_tensor(SavedClass::Attention, 16, 32));
      for (std::size_t i = 0; i < 4; ++i) found.tensors[i].entry = static_cast<std::int64_t>(i);
    }
    if (channels > 0) found.tensors[0].sizes[1] = channels;
    for (TransformStatistics& transform : found.tensors[0].transforms)
      for (BandStatistics& band : transform.bands) band.squared_range *= scale;
    for (std::size_t i = 0; i < found.tensors.size(); ++i) {
      SavedStatistics& tensor = found.tensors[i];
      tensor.layer = tensor.kind == SavedClass::Positive ? (i > 5 ? 0 : 1) : -1;
      found.census.entries.push_back({.kind = tensor.kind,
                                      .sizes = tensor.sizes,
                                      .per_sample = tensor.per_sample,
                                      .same_as = tensor.entry,
                                      .layer = tensor.layer});
    }
    return found;
  }

  PolicyEvents profile(ActivationPolicy& policy, StepPlan& plan, bool restored = false,
                       std::int64_t step = 0) {
    PolicyEvents events;
    std::optional<ProfileRequest> request = policy.start_profile(step, plan, restored);
    while (request) request = policy.take(measure(*request, plan), plan, events);
    return events;
  }
};

StepPlan profiled_plan() {
  return {.batch_size = 64, .micro_batch_size = 64, .layers = std::vector<LayerPlan>(2)};
}

ActivationPolicy activation_policy(CompressionMode mode) {
  return ActivationPolicy({.compression = {.mode = mode, .error_bound = 0.01}});
}

/// Of mode Ratio.
ActivationPolicy resumed_from(const ActivationPolicy& policy) {
  StateMap state;
  for (const StateView& view : policy.state()) state.emplace(view.name, view);
  ActivationPolicy resumed = activation_policy(CompressionMode::Ratio);
  resumed.restore(state);
  return resumed;
}

/// Nearly all of the noise is in the gradient of layer 0.
CompressionNoise one_noisy_layer(double error) {
  return {.compression_variance = 0.01,
          .batch_variance = 1,
          .error = error,
          .layers = {{.variance = error, .square = 1}, {.variance = error / 100, .square = 1}}};
}

/// Of no layer in particular.
CompressionNoise unlayered(double noise, double batch_variance = 1) {
  return {.compression_variance = noise,
          .batch_variance = batch_variance,
          .error = noise,
          .layers = std::vector<LayerCompressionNoise>(2)};
}

constexpr ProfileKind kValuesAsked = ProfileKind::Values, kNoiseAsked = ProfileKind::Noise;

TEST(ActivationPolicy, MeasuresAgainUntilTheBoundHolds) {
  ActivationPolicy policy = activation_policy(CompressionMode::Error);
  SimulatedProfiler profiler;
  profiler.noise_of = [&](const StepPlan&) {
    return CompressionNoise{.error = profiler.tried.size() < 3 ? 0.05 : 0.006};
  };
  StepPlan plan = profiled_plan();
  profiler.profile(policy, plan);
  EXPECT_EQ(profiler.asked, (std::vector{kValuesAsked, kNoiseAsked, kNoiseAsked, kNoiseAsked}));
  EXPECT_NE(profiler.tried[0], profiler.tried[1]);
  EXPECT_NE(profiler.tried[1], profiler.tried[2]);
  EXPECT_EQ(plan, profiler.tried[2]);
}

TEST(ActivationPolicy, SaysWhenTheBoundCannotBeMet) {
  ActivationPolicy policy = activation_policy(CompressionMode::Error);
  // Little above the bound: corrections stay small and the plans lossy.
  SimulatedProfiler profiler{
      .noise_of = [](const StepPlan&) { return CompressionNoise{.error = 0.0101}; }};
  StepPlan plan = profiled_plan();
  const PolicyEvents events = profiler.profile(policy, plan);
  EXPECT_EQ(profiler.tried.size(), 9u);
  ASSERT_FALSE(events.empty());
  EXPECT_NE(events.back().find("above its bound"), std::string::npos);
}

TEST(ActivationPolicy, KeepsATrialOnlyWhereTheNoiseFalls) {
  for (const double later : {0.001, 0.1}) {
    ActivationPolicy policy = activation_policy(CompressionMode::Ratio);
    SimulatedProfiler profiler;
    profiler.noise_of = [&](const StepPlan&) {
      return one_noisy_layer(profiler.tried.size() < 2 ? 0.05 : later);
    };
    StepPlan plan = profiled_plan();
    profiler.profile(policy, plan);
    ASSERT_EQ(profiler.asked, (std::vector{kValuesAsked, kNoiseAsked, kNoiseAsked}));
    EXPECT_NE(profiler.tried[0], profiler.tried[1]);
    EXPECT_EQ(plan, profiler.tried[later < 0.05 ? 1 : 0]) << later;
    EXPECT_EQ(policy.noise().error, std::min(later, 0.05));
  }
}

TEST(ActivationPolicy, MeasuresTensorsOneByOneButRarely) {
  for (const double later : {0.001, 0.1}) {
    ActivationPolicy policy = activation_policy(CompressionMode::Ratio);
    SimulatedProfiler profiler;
    StepPlan plan = profiled_plan();
    const auto asked_after = [&](std::int64_t step) {
      profiler.asked.clear();
      profiler.tried.clear();
      profiler.profile(policy, plan, /*restored=*/false, step);
      return std::ranges::count(profiler.asked, ProfileKind::Tensors);
    };
    // One tensor matters a hundred times as much as the others.
    profiler.error_of = [](std::size_t i) { return i == 2 ? 0.1 : 0.001; };
    profiler.noise_of = [&](const StepPlan&) {
      return CompressionNoise{.compression_variance = 0.01,
                              .batch_variance = 1,
                              .error = profiler.tried.size() < 2 ? 0.05 : later,
                              .layers = one_noisy_layer(0.05).layers};
    };
    EXPECT_EQ(asked_after(50), 0);
    const StepPlan before = plan;
    EXPECT_EQ(asked_after(100), 1);
    std::vector asked = {kValuesAsked, kNoiseAsked, ProfileKind::Tensors, kNoiseAsked};
    if (later > 0.05) asked.push_back(kNoiseAsked);  // of plans by layer, in their place
    ASSERT_EQ(profiler.asked, asked);
    EXPECT_NE(profiler.tried[0], profiler.tried[1]);
    EXPECT_EQ(plan, later < 0.05 ? profiler.tried[1] : before) << later;
    EXPECT_EQ(asked_after(500), 0);
    // A resumed run plans as this one does, also for values that have changed.
    ActivationPolicy resumed = resumed_from(policy);
    StepPlan again = plan;
    profiler.profile(resumed, again, /*restored=*/true, 500);
    profiler.scale = 3;
    EXPECT_EQ(asked_after(900), 0);
    std::swap(policy, resumed);
    std::swap(plan, again);
    EXPECT_EQ(asked_after(900), 0);
    EXPECT_EQ(plan, again);
    EXPECT_EQ(asked_after(1000), 1);
  }
}

TEST(ActivationPolicy, MeasuresOtherTensorsAgainAfterTwiceAsManySteps) {
  ActivationPolicy policy = activation_policy(CompressionMode::Ratio);
  SimulatedProfiler profiler;
  profiler.error_of = [](std::size_t i) { return i == 2 ? 0.1 : 0.001; };
  profiler.noise_of = [&](const StepPlan&) {
    return CompressionNoise{.compression_variance = 0.01,
                            .batch_variance = 1,
                            .error = profiler.tried.size() < 2 ? 0.05 : 0.001,
                            .layers = one_noisy_layer(0.05).layers};
  };
  StepPlan plan = profiled_plan();
  const auto asked_after = [&](std::int64_t step) {
    profiler.asked.clear();
    profiler.tried.clear();
    profiler.profile(policy, plan, /*restored=*/false, step);
    return std::ranges::count(profiler.asked, ProfileKind::Tensors);
  };
  asked_after(50);
  EXPECT_EQ(asked_after(100), 1);
  profiler.channels = 24;
  EXPECT_EQ(asked_after(150), 0);
  EXPECT_EQ(asked_after(200), 1);
}

/// Tries a higher ratio after a first profile without noise worth mentioning; what it then adds to
/// the mini-batch's noise, plan by plan.
struct Rise {
  std::vector<double> noise;
  double ratio;  // in the end
};

class ARise : public testing::TestWithParam<Rise> {};

TEST_P(ARise, IsMeasuredBeforeStepsFollowIt) {
  ActivationPolicy policy(
      {.compression = {.mode = CompressionMode::Ratio, .loop = {.most_ratio = 32}}});
  std::size_t measured = 0;
  bool rises = false;
  SimulatedProfiler profiler;
  profiler.noise_of = [&](const StepPlan&) {
    const std::size_t last = GetParam().noise.size() - 1;  // and a trial of bit widths by layer
    const double noise = rises ? GetParam().noise[std::min(measured++, last)] : 1e-5;
    return CompressionNoise{
        .compression_variance = noise,
        .batch_variance = 1,
        .error = noise,
        .layers = {{.variance = noise, .square = 1}, {.variance = noise, .square = 1}}};
  };
  StepPlan plan = profiled_plan();
  profiler.profile(policy, plan);
  const StepPlan before = plan;
  PolicyEvents events;
  policy.apply({.step = 25}, plan, events);
  ASSERT_TRUE(policy.profile_due(25));
  rises = true;
  events = profiler.profile(policy, plan, /*restored=*/false, 25);
  EXPECT_GE(measured, GetParam().noise.size());
  const std::string told = "-> " + text(GetParam().ratio).substr(0, 4);
  if (GetParam().noise.front() > 0.05) {
    ASSERT_FALSE(events.empty());
    EXPECT_NE(events.front().find(told), std::string::npos) << events.front();
  }
  if (GetParam().ratio > 10.2) {
    EXPECT_NE(plan, before);
  }
  policy.apply({.step = 50}, plan, events);
  EXPECT_FALSE(policy.profile_due(51));
}

INSTANTIATE_TEST_SUITE_P(Ratios, ARise,
                         testing::Values(Rise{.noise = {0.03}, .ratio = 13.6},
                                         Rise{.noise = {0.5, 0.03}, .ratio = 11.8},
                                         Rise{.noise = {1e18, 0.06}, .ratio = 10.2}));

TEST(ActivationPolicy, RisesAgainOnceTensorsWereMeasured) {
  ActivationPolicy policy(
      {.compression = {.mode = CompressionMode::Ratio, .loop = {.most_ratio = 32}}});
  double noise = 1e-5;
  SimulatedProfiler profiler;
  profiler.error_of = [](std::size_t i) { return i == 2 ? 0.1 : 0.001; };
  profiler.noise_of = [&](const StepPlan&) { return unlayered(noise); };
  StepPlan plan = profiled_plan();
  profiler.profile(policy, plan);
  PolicyEvents events;
  const auto rises_after = [&](std::int64_t step) {
    policy.apply({.step = step}, plan, events);
    return policy.profile_due(step + 1);
  };
  ASSERT_TRUE(rises_after(25));
  noise = 0.5;
  profiler.profile(policy, plan, /*restored=*/false, 25);  // fails, and stays for three epochs
  noise = 1e-5;
  profiler.profile(policy, plan, /*restored=*/false, 50);
  EXPECT_FALSE(rises_after(50));
  std::size_t measured = profiler.tried.size();
  profiler.noise_of = [&](const StepPlan&) {
    const double now = profiler.tried.size() == measured + 1 ? 1e-4 : 1e-5;
    return unlayered(now);
  };
  profiler.profile(policy, plan, /*restored=*/false, 100);
  EXPECT_TRUE(rises_after(100));
}

TEST(ActivationPolicy, ProfilesNoMoreSamplesThanAPassHasRoomFor) {
  EXPECT_EQ(profile_samples(96, 10.2), 11);
  EXPECT_EQ(profile_samples(64, 10.2), 7);
  EXPECT_EQ(profile_samples(64, 16), 5);
  EXPECT_EQ(profile_samples(32, 16), 3);
  EXPECT_EQ(profile_samples(1, 32), 3);
  StepPlan plan = profiled_plan();
  for (const auto& [mode, samples] :
       {std::pair{CompressionMode::Ratio, 7}, std::pair{CompressionMode::Lossless, 11},
        std::pair{CompressionMode::Error, 11}})
    EXPECT_EQ(activation_policy(mode).start_profile(0, plan, /*restored=*/false).samples, samples);
}

TEST(ActivationPolicy, MeasuresEveryLowerRatioUntilTheNoiseIsLowEnough) {
  ActivationPolicy policy(
      {.compression = {.mode = CompressionMode::Ratio, .loop = {.target_ratio = 16}}});
  double noise = 1e-3;
  SimulatedProfiler profiler;
  profiler.error_of = [](std::size_t) { return 0.001; };
  profiler.noise_of = [&](const StepPlan&) { return unlayered(noise); };
  StepPlan plan = profiled_plan();
  profiler.profile(policy, plan);
  PolicyEvents events;
  std::int64_t step = 25;
  const auto decide = [&] {
    policy.apply({.step = step}, plan, events);
    const bool due = policy.profile_due(step);
    if (due) profiler.profile(policy, plan, /*restored=*/false, step);
    step += 25;
    return due;
  };
  EXPECT_TRUE(decide());
  EXPECT_FALSE(decide());
  noise = 3;
  EXPECT_TRUE(decide());  // finds it
  EXPECT_TRUE(decide());
  EXPECT_TRUE(decide());
  noise = 0.02;
  EXPECT_TRUE(decide());
  const StepPlan low = plan;
  EXPECT_EQ(std::ranges::count_if(
                events, [](const std::string& event) { return event.starts_with("compression "); }),
            3)
      << "16 -> 10.7 -> 7.1 -> 4.7";
  EXPECT_TRUE(decide()) << "soon after";
  EXPECT_FALSE(decide());
  EXPECT_EQ(plan, low);
}

TEST(ActivationPolicy, DoesNotProfileMoreOftenWhereNothingCanFollow) {
  for (const double batch_variance : {1.0, 0.0}) {
    ActivationPolicy policy(
        {.compression = {.mode = CompressionMode::Ratio, .loop = {.target_ratio = 4}}});
    SimulatedProfiler profiler;
    profiler.error_of = [](std::size_t) { return 0.001; };
    profiler.noise_of = [&](const StepPlan&) { return unlayered(0.06, batch_variance); };
    StepPlan plan = profiled_plan();
    PolicyEvents events;
    std::int64_t profiles = 0;
    for (std::int64_t step = 0; step <= 2000; step += 25) {
      policy.apply({.step = step}, plan, events);
      if (!policy.profile_due(step)) continue;
      profiler.profile(policy, plan, /*restored=*/false, step);
      ++profiles;
    }
    EXPECT_EQ(profiles, 8) << batch_variance;
  }
}

TEST(ActivationPolicy, CallsNoRiseTooNoisyThatBitsTookBack) {
  ActivationPolicy policy({.compression = {.mode = CompressionMode::Ratio,
                                           .loop = {.target_ratio = 6.2, .most_ratio = 32}}});
  SimulatedProfiler profiler;
  profiler.attention = true;
  double noise = 1e-5;
  profiler.noise_of = [&](const StepPlan&) { return unlayered(noise); };
  StepPlan plan = profiled_plan();
  profiler.profile(policy, plan);
  PolicyEvents events;
  policy.apply({.step = 25}, plan, events);
  ASSERT_FALSE(events.empty());
  EXPECT_NE(events.back().find("6.2x -> 8.27x"), std::string::npos) << events.back();
  noise = 0.5;
  events = profiler.profile(policy, plan, /*restored=*/false, 25);
  ASSERT_FALSE(events.empty());
  EXPECT_NE(events.front().find("too few bits"), std::string::npos) << events.front();
  for (const std::string& event : events)
    EXPECT_EQ(event.find("too much noise"), std::string::npos) << event;
}

TEST(ActivationPolicy, IsDueAgainAfterAProfileThatWasNotMade) {
  ActivationPolicy policy = activation_policy(CompressionMode::Ratio);
  SimulatedProfiler profiler{.noise_of = [](const StepPlan&) { return one_noisy_layer(0.05); }};
  StepPlan plan = profiled_plan();
  profiler.profile(policy, plan);
  ASSERT_TRUE(policy.profile_due(25));
  policy.start_profile(25, plan, /*restored=*/false);  // the epoch has too few samples left
  EXPECT_TRUE(policy.profile_due(26));
  policy.postpone_profile(26);  // there is too little memory
  EXPECT_FALSE(policy.profile_due(50));
  EXPECT_TRUE(policy.profile_due(51));
  profiler.profile(policy, plan, /*restored=*/false, 51);
  EXPECT_FALSE(policy.profile_due(100));
  EXPECT_TRUE(policy.profile_due(101)) << "the gap has doubled once";
}

TEST(ActivationPolicy, ProfilesAResumedRunWhenItWouldHave) {
  ActivationPolicy policy = activation_policy(CompressionMode::Ratio);
  SimulatedProfiler profiler{.noise_of = [](const StepPlan&) { return one_noisy_layer(0.05); }};
  StepPlan plan = profiled_plan();
  for (const std::int64_t step : {0, 25, 75}) profiler.profile(policy, plan, false, step);
  ActivationPolicy resumed = resumed_from(policy);
  profiler.profile(resumed, plan, /*restored=*/true, 80);
  for (const std::int64_t step : {100, 174, 175})
    EXPECT_EQ(resumed.profile_due(step), step == 175) << step;
}

TEST(ActivationPolicy, SaysOnceThatTensorsDiffer) {
  ActivationPolicy policy = activation_policy(CompressionMode::Ratio);
  StepPlan plan = profiled_plan();
  const auto notices = [&](std::int64_t mismatches) {
    PolicyEvents events;
    StepReport report{.step = 25};
    report.saved = SavedCounts{.mismatches = mismatches};
    policy.apply(report, plan, events);
    return std::ranges::count_if(events, [](const std::string& event) {
      return event.find("differ from the profiled ones") != std::string::npos;
    });
  };
  EXPECT_EQ(notices(24), 1);
  EXPECT_EQ(notices(24), 0);
  EXPECT_EQ(notices(3), 1);
  EXPECT_EQ(notices(0), 0);
  EXPECT_EQ(notices(3), 1);
}

TEST(ActivationPolicy, ReportsTheNoiseOfAProfileOnce) {
  ActivationPolicy policy = activation_policy(CompressionMode::Ratio);
  SimulatedProfiler profiler{.noise_of = [](const StepPlan&) { return one_noisy_layer(0.05); }};
  StepPlan plan = profiled_plan();
  profiler.profile(policy, plan);
  ActivationPolicy resumed = resumed_from(policy);
  for (ActivationPolicy* one : {&policy, &resumed}) {
    StepReport first, second;
    one->complete(first);
    one->complete(second);
    ASSERT_TRUE(first.compression_noise);
    EXPECT_EQ(*first.compression_noise, policy.noise());
    EXPECT_FALSE(second.compression_noise);
  }
}

TEST(ActivationPolicy, LeavesARestoredPlanAsItIsAndGoesLosslessAtOnceAfterASpike) {
  ActivationPolicy policy = activation_policy(CompressionMode::Ratio);
  SimulatedProfiler profiler{.noise_of = [](const StepPlan&) { return one_noisy_layer(0.05); }};
  StepPlan plan = profiled_plan();
  profiler.profile(policy, plan);
  ActivationPolicy resumed = resumed_from(policy);
  profiler.asked.clear();
  StepPlan restored = plan;
  profiler.profile(resumed, restored, /*restored=*/true);
  EXPECT_EQ(profiler.asked, std::vector{kValuesAsked});
  EXPECT_EQ(restored, plan);
  PolicyEvents events;
  resumed.after_rollback(100, restored, events);
  EXPECT_NE(restored, plan);
  for (const LayerPlan& layer : restored.layers)
    EXPECT_NE(layer.saved, ActivationFormat::Compressed);
  EXPECT_FALSE(events.empty());
}

}  // namespace
}  // namespace triaccel
