#include "triaccel/policies/compression/activation_policy.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/policies/compression/saved_network.h"

namespace triaccel {
namespace {

/// Measures a network of eight saved tensors in two layers, with the noise that `noise_of` says.
struct SimulatedProfiler {
  std::function<CompressionNoise(const StepPlan&)> noise_of;
  std::vector<ProfileKind> asked = {};
  std::vector<StepPlan> tried = {};  // of noise

  ActivationProfile measure(const ProfileRequest& request, const StepPlan& plan) {
    asked.push_back(request.kind);
    ActivationProfile found{.kind = request.kind};
    if (request.kind == ProfileKind::Noise) {
      tried.push_back(plan);
      found.noise = noise_of(plan);
    }
    if (request.kind != ProfileKind::Values) return found;
    found.tensors = saved_resnet(4);
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

  PolicyEvents profile(ActivationPolicy& policy, StepPlan& plan, bool restored = false) {
    PolicyEvents events;
    std::optional<ProfileRequest> request = policy.start_profile(restored);
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
