#include "triaccel/policies/compression/saved_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/policies/compression/saved_network.h"
#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/compression/predicted_error.h"

namespace triaccel {
namespace {

constexpr std::int64_t kPlannedSamples = 64;

SavedDecision plan_at(const std::vector<SavedStatistics>& tensors, double ratio,
                      const CodecOptions& options = {}, double drop_price = kDropPrice) {
  return plan_saved(tensors,
                    {.samples = kPlannedSamples,
                     .budget_bytes = budget_for(tensors, ratio, kPlannedSamples),
                     .drop_price = drop_price},
                    options);
}

bool tells(const PolicyEvents& events, const std::string& words) {
  return std::any_of(events.begin(), events.end(), [&](const std::string& event) {
    return event.find(words) != std::string::npos;
  });
}

TEST(PlanSaved, TransformsWhereTheSpectrumIsSteepAndNotWhereItIsFlat) {
  std::vector<SavedStatistics> tensors = {saved_tensor(SavedClass::NormInput, 16, 32, 0.1),
                                          saved_tensor(SavedClass::NormInput, 16, 32, 1.0),
                                          saved_tensor(SavedClass::Positive, 16, 32, 0.1)};
  const SavedDecision decision = plan_at(tensors, 10.2);
  EXPECT_TRUE(decision.fits);
  EXPECT_EQ(decision.plans[0].codec, SavedCodec::Frequency);
  EXPECT_EQ(decision.plans[1].codec, SavedCodec::Groups);
  EXPECT_EQ(decision.plans[2].codec, SavedCodec::NonZeros);
  const auto& widths = decision.plans[0].band_eighths;
  EXPECT_GE(std::set<int>(widths.begin(), widths.end()).size(), 3u);
  EXPECT_TRUE(std::is_sorted(widths.rbegin(), widths.rend()));
}

TEST(PlanSaved, UsesOnlyTheCodecsItMay) {
  const std::vector<SavedStatistics> tensors = saved_resnet(6);
  const SavedDecision decision = plan_at(tensors, 8, {.frequency = false, .nonzeros = false});
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(decision.plans[i].codec,
              tensors[i].kind == SavedClass::Statistics ? SavedCodec::Raw : SavedCodec::Groups);
}

TEST(PlanSaved, TakesATransformOnlyForAClearAdvantage) {
  // 0.95 of the groups' error at equal bits: not enough to begin with, enough to stay.
  std::vector<SavedStatistics> tensors = {saved_tensor(SavedClass::NormInput, 64, 32)};
  tensors[0].transforms[2].measured = tensors[0].transforms[3].measured = false;
  for (BandStatistics& band : tensors[0].transforms[1].bands)
    band = {.mean_square = 1, .squared_range = 32 * 0.95};
  EXPECT_EQ(plan_at(tensors, 8).plans[0].codec, SavedCodec::Groups);
  EXPECT_EQ(plan_at(tensors, 8, {.hysteresis = 0}).plans[0].codec, SavedCodec::Frequency);
  const std::vector<SavedPlan> before = {
      {.codec = SavedCodec::Frequency, .block = 8, .band_eighths = {16, 16, 16, 16, 16}}};
  const SavedDecision stays = plan_saved(tensors,
                                         {.samples = kPlannedSamples,
                                          .budget_bytes = budget_for(tensors, 8, kPlannedSamples),
                                          .previous = before},
                                         {});
  EXPECT_EQ(stays.plans[0].codec, SavedCodec::Frequency);
}

TEST(PlanSaved, SpendsMoreOnWhatTheGradientFeels) {
  std::vector<SavedStatistics> tensors = {saved_tensor(SavedClass::Factor, 16, 32),
                                          saved_tensor(SavedClass::NormInput, 16, 32)};
  SavedDecision decision = plan_at(tensors, 10);
  EXPECT_GT(mean_bits(tensors[0], decision.plans[0]), mean_bits(tensors[1], decision.plans[1]));
  tensors[1].sensitivity = 10;
  decision = plan_at(tensors, 10);
  EXPECT_LT(mean_bits(tensors[0], decision.plans[0]), mean_bits(tensors[1], decision.plans[1]));
}

TEST(PlanSaved, DropsBandsWhileThatIsCheap) {
  const std::vector<SavedStatistics> tensors = {saved_tensor(SavedClass::NormInput, 16, 32, 0.1)};
  const auto dropped = [&](double price) {
    const SavedDecision decision = plan_at(tensors, 16, {}, price);
    return std::ranges::count(decision.plans[0].band_eighths, 0);
  };
  EXPECT_GT(dropped(1), dropped(1000));
}

TEST(PlanSaved, KeepsLeastBitsOfKindsThatTakeABias) {
  std::vector<SavedStatistics> tensors = saved_resnet(6);
  tensors.push_back(saved_tensor(SavedClass::Nonlinear, 16, 16));
  tensors.push_back(saved_tensor(SavedClass::Attention, 16, 16));
  const SavedDecision decision = plan_at(tensors, 9);
  EXPECT_TRUE(decision.fits);
  EXPECT_GE(mean_bits(tensors[18], decision.plans[18]), 5);
  EXPECT_GE(mean_bits(tensors[19], decision.plans[19]), 8);
  EXPECT_FALSE(tells(decision.events, "lowered"));
}

TEST(PlanSaved, LowersLeastBitsBeforeItBreaksTheBudgetAndSaysSo) {
  const std::vector<SavedStatistics> tensors(4, saved_tensor(SavedClass::Attention, 16, 32));
  const SavedDecision decision = plan_at(tensors, 6);
  EXPECT_TRUE(decision.fits);
  EXPECT_LE(decision.bytes, budget_for(tensors, 6, kPlannedSamples));
  for (const SavedPlan& plan : decision.plans) {
    EXPECT_GE(plan.eighths, 40);
    EXPECT_LT(plan.eighths, 64);
  }
  EXPECT_TRUE(tells(decision.events, "lowered by 3"));
}

TEST(PlanSaved, LowersLeastBitsWhereOthersWouldHaveHardlyAny) {
  std::vector<SavedStatistics> tensors(4, saved_tensor(SavedClass::Attention, 16, 32));
  tensors.resize(16, saved_tensor(SavedClass::Factor, 16, 32));
  const SavedDecision decision =
      plan_at(tensors, 10);  // of which eight bits of attention leave 1.3
  EXPECT_TRUE(decision.fits);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_GE(mean_bits(tensors[i], decision.plans[i]), 2) << i;
  EXPECT_LT(mean_bits(tensors[0], decision.plans[0]), 6);
  EXPECT_TRUE(tells(decision.events, "lowered by"));
  // Where they have enough it stays as it is.
  const SavedDecision ample = plan_at(tensors, 4);
  EXPECT_GE(mean_bits(tensors[0], ample.plans[0]), 8);
  EXPECT_FALSE(tells(ample.events, "lowered by"));
}

TEST(PlanSaved, GivesTheFewestBitsWhereNothingFits) {
  const std::vector<SavedStatistics> tensors = saved_resnet(3);
  const SavedDecision decision = plan_at(tensors, 500);
  EXPECT_FALSE(decision.fits);
  EXPECT_TRUE(tells(decision.events, "need at least"));
  for (std::size_t i = 0; i < tensors.size(); i += 3)
    EXPECT_EQ(decision.plans[i].codec, SavedCodec::Frequency);
}

TEST(PlanSaved, KeepsEverythingWholeWhenThereIsRoom) {
  const std::vector<SavedStatistics> tensors = saved_resnet(3);
  const SavedDecision decision = plan_at(tensors, 1);
  EXPECT_EQ(decision.gradient_error, 0);
  for (const SavedPlan& plan : decision.plans) EXPECT_EQ(plan.codec, SavedCodec::Raw);
}

/// A norm's input and what is computed from it.
std::vector<SavedStatistics> with_derived(Derivation derivation, SavedClass kind) {
  std::vector<SavedStatistics> tensors = {saved_tensor(SavedClass::NormInput, 16, 32),
                                          saved_tensor(kind, 16, 32)};
  tensors[1].derivation = derivation;
  tensors[1].source = 0;
  tensors[1].mask_too = derivation == Derivation::Rectified;
  return tensors;
}

TEST(PlanSaved, DerivesWhatIsAffineAlways) {
  const auto tensors = with_derived(Derivation::Affine, SavedClass::Factor);
  for (const double ratio : {4.0, 10.0, 20.0, 40.0})
    EXPECT_EQ(plan_at(tensors, ratio).plans[1].codec, SavedCodec::Derived) << ratio;
  EXPECT_EQ(plan_at(tensors, 10, {.derive = false}).plans[1].codec, SavedCodec::Groups);
}

TEST(PlanSaved, DerivesThroughAReluOnlyFromASourceOfFourBits) {
  auto tensors = with_derived(Derivation::Rectified, SavedClass::Positive);
  tensors[1].nonzero_share = 1;  // storing it would be expensive
  SavedDecision decision = plan_at(tensors, 10);
  EXPECT_EQ(decision.plans[1].codec, SavedCodec::Derived);
  EXPECT_GE(mean_bits(tensors[0], decision.plans[0]), 4);
  EXPECT_EQ(decision.errors[1], decision.errors[0]);
  decision = plan_at(tensors, 16);
  EXPECT_EQ(decision.plans[1].codec, SavedCodec::NonZeros);
}

TEST(PlanSaved, StoresWhatDerivingWouldMakeWorse) {
  // Codes of few non-zeros are cheap, and exact; the source is not.
  auto tensors = with_derived(Derivation::Rectified, SavedClass::Positive);
  tensors[1].nonzero_share = 0.05;
  tensors[0].transforms[0].bands[0].squared_range = 500;
  EXPECT_EQ(plan_at(tensors, 8).plans[1].codec, SavedCodec::NonZeros);
}

TEST(PlanSaved, DerivesThroughASmoothFunctionOnlyFromAnExactSource) {
  const auto tensors = with_derived(Derivation::Smooth, SavedClass::Factor);
  SavedDecision decision = plan_at(tensors, 12);
  EXPECT_EQ(decision.plans[1].codec, SavedCodec::Derived);
  EXPECT_LT(decision.errors[0], 0.01);
  decision = plan_at(tensors, 20);
  EXPECT_EQ(decision.plans[1].codec, SavedCodec::Groups);
}

TEST(DerivableTensors, NeedASourceBeforeThemWhoseValuesAreKept) {
  auto tensors = with_derived(Derivation::Affine, SavedClass::Factor);
  EXPECT_TRUE(derivable_tensors(tensors, kPlannedSamples, {})[1]);
  tensors[0].kind = SavedClass::Sign;
  EXPECT_FALSE(derivable_tensors(tensors, kPlannedSamples, {})[1]);
  tensors[0].kind = SavedClass::NormInput;
  tensors[1].source = 1;
  EXPECT_FALSE(derivable_tensors(tensors, kPlannedSamples, {})[1]);
  tensors[1].source = -1;
  EXPECT_FALSE(derivable_tensors(tensors, kPlannedSamples, {})[1]);
}

TEST(PlanSaved, StaysWithItsPlansUntilOthersAreClearlyBetter) {
  std::vector<SavedStatistics> tensors = saved_resnet(6);
  const SavedDecision first = plan_at(tensors, 10.2);
  const auto again = [&](double ratio) {
    return plan_saved(tensors,
                      {.samples = kPlannedSamples,
                       .budget_bytes = budget_for(tensors, ratio, kPlannedSamples),
                       .previous = first.plans},
                      {});
  };
  EXPECT_EQ(again(10.2).plans, first.plans);
  EXPECT_TRUE(again(10.2).events.empty());
  EXPECT_EQ(again(10.1).plans, first.plans) << "a little more room";
  EXPECT_NE(again(10.4).plans, first.plans) << "too little room";
  EXPECT_NE(again(8).plans, first.plans) << "much more room";
  EXPECT_EQ(again(8).events.size(), 1u);
  for (BandStatistics& band : tensors[0].transforms[1].bands) band.squared_range *= 1.02;
  EXPECT_EQ(again(10.2).plans, first.plans) << "a little other numbers";
  tensors[0].sensitivity = 50;
  EXPECT_NE(again(10.2).plans, first.plans) << "quite other numbers";
}

TEST(PlanSaved, PlansOnlyTensorsThatMoved) {
  std::vector<SavedStatistics> tensors = saved_resnet(6);
  const SavedDecision first = plan_at(tensors, 10.2);
  tensors[0].sensitivity = tensors[3].sensitivity = 50;
  std::vector<bool> keep(tensors.size(), true);
  keep[0] = keep[6] = false;
  PlanRequest request{.samples = kPlannedSamples,
                      .budget_bytes = budget_for(tensors, 10.2, kPlannedSamples),
                      .previous = first.plans,
                      .keep = keep};
  const SavedDecision second = plan_saved(tensors, request, {});
  EXPECT_LE(second.bytes, request.budget_bytes);
  EXPECT_NE(second.plans[0], first.plans[0]);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_TRUE(!keep[i] || second.plans[i] == first.plans[i]) << i;
  request.budget_bytes /= 2;
  const SavedDecision third = plan_saved(tensors, request, {});
  EXPECT_TRUE(third.fits);
  EXPECT_TRUE(tells(third.events, "reallocating all bit widths"));
}

TEST(PlanSaved, MeetsABoundOnTheErrorWithFewBytes) {
  std::vector<SavedStatistics> tensors = saved_resnet(6);
  std::int64_t last = 1LL << 60;
  for (const double eps : {1e-4, 1e-3, 1e-2, 1e-1}) {
    const SavedDecision decision =
        plan_saved(tensors, {.samples = kPlannedSamples, .error_bound = eps}, {.hysteresis = 0});
    EXPECT_TRUE(decision.fits);
    EXPECT_LT(decision.bytes, last);
    last = decision.bytes;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      EXPECT_LE(decision.errors[i], permitted_error(tensors[i], eps) * (1 + 1e-9)) << i;
  }
}

TEST(PlanSaved, TakesTheFewestEighthsThatABoundPermits) {
  std::vector<SavedStatistics> tensors = {saved_tensor(SavedClass::Factor, 16, 32)};
  tensors[0].transforms[1].measured = tensors[0].transforms[2].measured = false;
  tensors[0].transforms[3].measured = false;
  for (const int eighths : {9, 16, 21, 40}) {
    const double error = 32 * quantization_error(eighths / 8.0);
    const SavedDecision decision = plan_saved(
        tensors, {.samples = kPlannedSamples, .error_bound = 2 * error * (1 + 1e-9)}, {});
    EXPECT_EQ(decision.plans[0].eighths, eighths);
  }
}

TEST(PermittedError, FollowsTheClosedFormWhereGradientsWereMeasured) {
  SavedStatistics tensor = saved_tensor(SavedClass::Factor, 16, 32);
  EXPECT_DOUBLE_EQ(permitted_error(tensor, 0.02), 0.01);
  tensor.variance = 2;
  tensor.weight_gradient_square = 3;
  tensor.error_gain = 5;
  EXPECT_DOUBLE_EQ(permitted_error(tensor, 0.02), 0.02 * 3 / (2 * 5) / 2);
}

TEST(CorrectedScale, LowersWhatIsAboveTheBoundAndStaysWhereItHolds) {
  EXPECT_DOUBLE_EQ(corrected_scale(1, 0.04, 0.01, true), 0.125);
  EXPECT_EQ(corrected_scale(0.1, 0.005, 0.01, true), 0.1);
  EXPECT_EQ(corrected_scale(0.1, 0.001, 0.01, false), 0.1);
  EXPECT_DOUBLE_EQ(corrected_scale(0.1, 0.001, 0.01, true), 0.5);
  EXPECT_DOUBLE_EQ(corrected_scale(0.01, 0, 0.01, true), 0.16) << "not at once";
  EXPECT_EQ(corrected_scale(0.5, 0.001, 0.01, true), 1) << "no further than it began";
  EXPECT_EQ(corrected_scale(0.1, NAN, 0.01, true), 0.1);
}

TEST(PlanSaved, NamesAQuestionThatMakesNoSense) {
  const std::vector<SavedStatistics> tensors = saved_resnet(2);
  const std::vector<SavedPlan> one(1);
  EXPECT_THROW(plan_saved(tensors, {.samples = 0}, {}), UsageError);
  EXPECT_THROW(plan_saved(tensors, {.previous = one}, {}), UsageError);
  EXPECT_THROW(plan_saved(tensors, {.keep = {true}}, {}), UsageError);
  EXPECT_THROW(budget_for(tensors, 0, 1), UsageError);
}

}  // namespace
}  // namespace triaccel
