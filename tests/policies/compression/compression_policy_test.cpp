#include "triaccel/policies/compression/compression_policy.h"

#include <gtest/gtest.h>

#include "tests/policies/compression/saved_network.h"
#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"

namespace triaccel {
namespace {

StateMap state_of(const CompressionPolicy& policy) {
  StateMap map;
  for (const StateView& view : policy.state()) map[view.name] = view;
  return map;
}

TEST(CompressionPolicy, FollowsTheOrdersOfItsLoop) {
  CompressionPolicy policy({.mode = CompressionMode::Ratio});
  const std::vector<SavedStatistics> tensors = saved_resnet(4);
  const SavedDecision first = policy.plan(tensors, 64, {});
  EXPECT_LE(first.bytes, budget_for(tensors, 10.2, 64));
  PolicyEvents events;
  policy.tick({.compression_noise = 1, .batch_noise = 1}, events);
  const SavedDecision more = policy.plan(tensors, 64, first.plans);
  EXPECT_GT(more.bytes, first.bytes);
  EXPECT_LE(more.bytes, budget_for(tensors, policy.orders().ratio, 64));
  policy.tick({.step = 400, .nonfinite = true}, events);
  const SavedDecision lossless = policy.plan(tensors, 64, more.plans);
  EXPECT_EQ(lossless.gradient_error, 0);
}

TEST(CompressionPolicy, LowersARatioThatLeavesAttentionTooFewBits) {
  const std::vector<SavedStatistics> tensors(4, saved_tensor(SavedClass::Attention, 16, 32));
  CompressionOptions options{.mode = CompressionMode::Ratio, .loop = {.target_ratio = 14}};
  CompressionPolicy policy(options);
  const SavedDecision decision = policy.plan(tensors, 64, {});
  for (const SavedPlan& plan : decision.plans) EXPECT_GE(plan.eighths, 40);
  EXPECT_LE(decision.bytes, budget_for(tensors, policy.orders().ratio, 64));
  EXPECT_GT(policy.orders().ratio, 5.5);
  EXPECT_TRUE(policy.orders().frozen);
  EXPECT_FALSE(policy.outdated());
  ASSERT_FALSE(decision.events.empty());
  EXPECT_NE(decision.events[0].find("attention would keep too few bits"), std::string::npos);
  EXPECT_EQ(policy.plan(tensors, 64, decision.plans).plans, decision.plans);
  // A trial keeps its ratio; then it may need more than the bytes it has.
  CompressionPolicy on_trial(options);
  const SavedDecision trial = on_trial.plan_at_ratio(tensors, 64, {});
  EXPECT_FALSE(trial.fits);
  EXPECT_DOUBLE_EQ(on_trial.orders().ratio, 14);
  EXPECT_TRUE(policy.plan_at_ratio(tensors, 64, decision.plans).fits);
  // Not below the least ratio, and nowhere where the user's own is to stay.
  options.loop.least_ratio = 10;
  CompressionPolicy bounded(options);
  EXPECT_LE(bounded.plan(tensors, 64, {}).bytes, budget_for(tensors, 10, 64));
  EXPECT_DOUBLE_EQ(bounded.orders().ratio, 10);
  options.loop.adapt = false;
  CompressionPolicy fixed(options);
  EXPECT_LE(fixed.plan(tensors, 64, {}).bytes, budget_for(tensors, 14, 64));
  EXPECT_DOUBLE_EQ(fixed.orders().ratio, 14);
}

TEST(CompressionPolicy, PlansAnewOnlyWhatHasMoved) {
  CompressionPolicy policy({.mode = CompressionMode::Ratio});
  std::vector<SavedStatistics> tensors = saved_resnet(4);
  const SavedDecision first = policy.plan(tensors, 64, {});
  tensors[3].sensitivity = 100;  // no part of a sketch
  tensors[6].transforms[1].bands[4].squared_range *= 100;
  const SavedDecision second = policy.plan(tensors, 64, first.plans);
  EXPECT_EQ(second.plans[3], first.plans[3]);
}

TEST(CompressionPolicy, LeavesRawOrLosslessWhatItsModeSays) {
  const std::vector<SavedStatistics> tensors = {saved_tensor(SavedClass::Sign, 8, 8),
                                                saved_tensor(SavedClass::Factor, 8, 8)};
  const auto codec = [&](CompressionMode mode) {
    return CompressionPolicy({.mode = mode}).plan(tensors, 64, {}).plans[0].codec;
  };
  EXPECT_EQ(codec(CompressionMode::Off), SavedCodec::Raw);
  EXPECT_EQ(codec(CompressionMode::Lossless), SavedCodec::Mask);
  const SavedDecision offloaded =
      CompressionPolicy({.mode = CompressionMode::Offload}).plan(tensors, 1024, {});
  EXPECT_EQ(offloaded.plans[0].codec, SavedCodec::Mask);
  EXPECT_EQ(offloaded.plans[1].codec, SavedCodec::Host);
  EXPECT_EQ(offloaded.errors, (std::vector<double>{0, 0}));
  const SavedDecision bounded =
      CompressionPolicy({.mode = CompressionMode::Error}).plan(tensors, 64, {});
  EXPECT_LE(bounded.errors[1], 0.005);
  EXPECT_GT(bounded.errors[1], 0);
}

TEST(CompressionPolicy, KnowsWhenItsPlansAreForOtherOrders) {
  CompressionPolicy policy({.mode = CompressionMode::Ratio});
  const std::vector<SavedStatistics> tensors = saved_resnet(4);
  const auto plan = [&] { return policy.plan(tensors, 64, {}); };
  EXPECT_TRUE(policy.outdated());
  plan();
  EXPECT_FALSE(policy.outdated());
  PolicyEvents events;
  policy.epoch({.accuracy = 70}, events);
  EXPECT_FALSE(policy.outdated());
  policy.epoch({.accuracy = 60}, events);
  EXPECT_TRUE(policy.outdated());
  CompressionPolicy restored({.mode = CompressionMode::Ratio});
  restored.restore(state_of(policy));
  EXPECT_TRUE(restored.outdated()) << "also for a run that goes on from here";
  plan();
  policy.tick({.step = 400, .nonfinite = true}, events);
  EXPECT_TRUE(policy.outdated());
  plan();
  EXPECT_FALSE(policy.outdated()) << "without loss, as ordered";
  policy.tick({.step = 450}, events);
  EXPECT_TRUE(policy.outdated());
  EXPECT_FALSE(CompressionPolicy({.mode = CompressionMode::Lossless}).outdated());
}

TEST(CompressionPolicy, SpendsMoreWhereTheMeasuredErrorIsAboveItsBound) {
  CompressionPolicy policy({.mode = CompressionMode::Error, .error_bound = 0.01});
  const std::vector<SavedStatistics> tensors = saved_resnet(4);
  const SavedDecision first = policy.plan(tensors, 64, {});
  EXPECT_FALSE(policy.correct(0.006, true));
  EXPECT_TRUE(policy.correct(0.05, true));
  EXPECT_TRUE(policy.outdated());
  const SavedDecision second = policy.plan(tensors, 64, first.plans);
  EXPECT_GT(second.bytes, first.bytes);
  EXPECT_LT(second.gradient_error, first.gradient_error / 5);
  EXPECT_FALSE(CompressionPolicy({.mode = CompressionMode::Ratio}).correct(1, true));
}

/// Nearly all of the noise in the gradient of layer 0, which reads as many tensors as layer 1.
void learn_one_layer(CompressionPolicy& policy, std::vector<SavedStatistics>& tensors,
                     const std::vector<SavedPlan>& plans) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i].layer = tensors[i].kind == SavedClass::Positive ? (i > 5 ? 0 : 1) : -1;
  policy.learn({.layers = {{.variance = 1, .square = 1}, {.variance = 0.01, .square = 1}}}, tensors,
               plans);
}

TEST(CompressionPolicy, PlansByTheNoiseOfLayersOnceItIsToldTo) {
  CompressionPolicy policy({.mode = CompressionMode::Ratio});
  std::vector<SavedStatistics> tensors = saved_resnet(4);
  const SavedDecision first = policy.plan(tensors, 64, {});
  learn_one_layer(policy, tensors, first.plans);
  const CompressionPolicy before = policy;
  EXPECT_EQ(policy.plan(tensors, 64, first.plans).plans, first.plans) << "not yet";
  policy.calibrate();
  const SavedDecision second = policy.plan(tensors, 64, first.plans);
  EXPECT_FALSE(policy.outdated());
  EXPECT_LE(second.bytes, budget_for(tensors, 10.2, 64));
  int more = 0, less = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const double change =
        mean_bits(tensors[i], second.plans[i]) - mean_bits(tensors[i], first.plans[i]);
    more += tensors[i].layer == 0 && change > 0 ? 1 : 0;
    less += tensors[i].layer == 1 && change < 0 ? 1 : 0;
    EXPECT_FALSE(tensors[i].layer == 0 && change < 0) << i;
    EXPECT_FALSE(tensors[i].layer == 1 && change > 0) << i;
  }
  EXPECT_GT(more, 0);
  EXPECT_GT(less, 0);
  policy = before;
  EXPECT_EQ(policy.plan(tensors, 64, first.plans).plans, first.plans) << "as if not tried";
}

TEST(CompressionPolicy, GoesOnFromItsState) {
  CompressionPolicy policy({.mode = CompressionMode::Ratio});
  std::vector<SavedStatistics> tensors = saved_resnet(4);
  SavedDecision first = policy.plan(tensors, 64, {});
  learn_one_layer(policy, tensors, first.plans);
  policy.calibrate();
  first = policy.plan(tensors, 64, first.plans);
  PolicyEvents events;
  policy.tick({.step = 200, .loss = 2}, events);
  CompressionPolicy restored({.mode = CompressionMode::Ratio});
  restored.restore(state_of(policy));
  EXPECT_EQ(restored.orders(), policy.orders());
  tensors[0].transforms[0].bands[0].squared_range *= 3;
  EXPECT_EQ(restored.plan(tensors, 64, first.plans).plans,
            policy.plan(tensors, 64, first.plans).plans);
  restored.calibrate();
  policy.calibrate();
  EXPECT_EQ(restored.plan(tensors, 64, {}).plans, policy.plan(tensors, 64, {}).plans);
  EXPECT_THROW(restored.restore({}), StorageError);
  StateMap older = state_of(policy);
  older.erase("compression/layers");
  EXPECT_THROW(restored.restore(older), StorageError) << "from before noise was told by layer";
}

}  // namespace
}  // namespace triaccel
