#include <gtest/gtest.h>

#include <cmath>

#include "triaccel/policies/curvature/curvature_policy.h"

namespace triaccel {
namespace {

StepPlan plan_of(std::size_t layers) {
  return {.batch_size = 8,
          .micro_batch_size = 8,
          .layers = std::vector<LayerPlan>(layers, LayerPlan{.compute = Precision::Bf16})};
}

CurvatureReport probe_of(const std::vector<double>& lambdas) {
  CurvatureReport probe;
  for (double lambda : lambdas) probe.layers.push_back({.eigenvalues = {lambda}});
  return probe;
}

TEST(PaperRateShare, FallsWithTheCurvature) {
  EXPECT_DOUBLE_EQ(paper_rate_share(0, 0.5), 1);
  EXPECT_DOUBLE_EQ(paper_rate_share(2, 0.5), 0.5);
  EXPECT_DOUBLE_EQ(paper_rate_share(-1, 0.5), 2) << "as printed, a concave layer speeds up";
}

TEST(RobustRateShare, CapsTheStepAtWhatIsStable) {
  const CurvatureRules rules{.rate_floor = 0.1, .cap = 1, .momentum = 0.9};
  EXPECT_DOUBLE_EQ(robust_rate_share(30, 0.1, rules), 1);     // 3.8 / 3
  EXPECT_DOUBLE_EQ(robust_rate_share(76, 0.1, rules), 0.5);   // 3.8 / 7.6
  EXPECT_DOUBLE_EQ(robust_rate_share(1e6, 0.1, rules), 0.1);  // the floor
  EXPECT_DOUBLE_EQ(robust_rate_share(-5, 0.1, rules), 1);
  EXPECT_DOUBLE_EQ(robust_rate_share(5, 0, rules), 1);
}

// The Fisher of a few samples overstates the curvature.
TEST(CurvatureCap, LeavesTheFisherTenTimesTheRoomOfTheHessian) {
  CurvatureRules rules{.cap = curvature_cap(CurvatureMode::Hessian), .momentum = 0};
  EXPECT_DOUBLE_EQ(robust_rate_share(20, 1, rules), 0.1);
  rules.cap = curvature_cap(CurvatureMode::FisherGram);
  EXPECT_DOUBLE_EQ(robust_rate_share(20, 1, rules), 1);
}

TEST(SmoothedCurvature, AveragesInLogSpaceAndMovesByABoundedFactor) {
  const CurvatureRules rules{.smoothing = 0.5, .most_change = 4};
  EXPECT_DOUBLE_EQ(smoothed_curvature(0, 7, rules), 7);
  EXPECT_DOUBLE_EQ(smoothed_curvature(0, -7, rules), 0);
  EXPECT_DOUBLE_EQ(smoothed_curvature(1, 9, rules), 3);
  EXPECT_DOUBLE_EQ(smoothed_curvature(1, 1e6, rules), 4);
  EXPECT_DOUBLE_EQ(smoothed_curvature(8, 1e-6, rules), 2);
  EXPECT_DOUBLE_EQ(smoothed_curvature(8, -1, rules), 2);
}

TEST(LiftedByCurvature, HasHysteresis) {
  EXPECT_FALSE(promoted_by_curvature(false, 10, 10, 0.2));
  EXPECT_TRUE(promoted_by_curvature(false, 10.1, 10, 0.2));
  EXPECT_TRUE(promoted_by_curvature(true, 8, 10, 0.2));
  EXPECT_FALSE(promoted_by_curvature(true, 7.9, 10, 0.2));
  EXPECT_FALSE(promoted_by_curvature(true, 1e9, 0, 0.2)) << "no threshold, no promotion";
}

TEST(PaperCurvature, ScalesTheRatesOfTheFirstPlan) {
  StepPlan plan = plan_of(3);
  plan.layers[1].learning_rate_scale = 0.5f;
  CurvaturePolicy policy({.set = PolicySet::Paper, .curvature = {.alpha = 0.5}}, plan);
  PolicyEvents events;
  CurvatureReport probe = probe_of({2, 2, 0});
  probe.layers[2].eigenvalues.clear();
  policy.add(probe, events);
  policy.apply(0.1, plan);
  policy.apply(0.1, plan);
  EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 0.5f);
  EXPECT_FLOAT_EQ(plan.layers[1].learning_rate_scale, 0.25f);
  EXPECT_FLOAT_EQ(plan.layers[2].learning_rate_scale, 1.0f) << "not measured";
}

TEST(PaperCurvature, GuardsFireAndCanBeSwitchedOff) {
  StepPlan plan = plan_of(2);
  ControlOptions options{.set = PolicySet::Paper,
                         .curvature = {.alpha = 0.5, .rate_floor = 0.1, .automatic = false}};
  {
    CurvaturePolicy policy(options, plan);
    PolicyEvents events;
    policy.add(probe_of({-1, 1000}), events);
    policy.apply(0.1, plan);
    EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 1.0f);
    EXPECT_FLOAT_EQ(plan.layers[1].learning_rate_scale, 0.1f);
    EXPECT_EQ(events.size(), 2u);
  }
  plan = plan_of(2);
  options.guards = {.no_negative_curvature = false, .rate_floor = false};
  CurvaturePolicy policy(options, plan);
  PolicyEvents events;
  policy.add(probe_of({-1, 18}), events);
  policy.apply(0.1, plan);
  EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 2.0f);
  EXPECT_FLOAT_EQ(plan.layers[1].learning_rate_scale, 0.1f);
  EXPECT_TRUE(events.empty());
  policy.add(probe_of({-2, 18}), events);  // 1 + alpha lambda = 0
  policy.apply(0.1, plan);
  EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 2.0f) << "an infinite rate is no rate";
}

TEST(PaperCurvature, TakesItsThresholdOnceFromTheFirstProbe) {
  CurvaturePolicy policy({.set = PolicySet::Paper, .curvature = {.quantile = 0.5}}, plan_of(3));
  PolicyEvents events;
  policy.add(probe_of({1, 2, 3}), events);
  EXPECT_EQ(policy.promoted(), (std::vector<bool>{false, false, true}));
  policy.add(probe_of({10, 20, 1}), events);
  EXPECT_EQ(policy.promoted(), (std::vector<bool>{true, true, false}));
}

TEST(CurvaturePolicy, PromotesAboveAGivenThresholdUntilAProbeSaysLess) {
  CurvaturePolicy policy({.curvature = {.smoothing = 0, .automatic = false, .tau = 10}},
                         plan_of(1));
  PolicyEvents events;
  policy.add(probe_of({12}), events);
  EXPECT_TRUE(policy.promoted()[0]);
  policy.add({.skipped = "no room"}, events);
  EXPECT_TRUE(policy.promoted()[0]) << "a skipped probe says nothing";
  policy.add(probe_of({9}), events);
  EXPECT_TRUE(policy.promoted()[0]);
  policy.add(probe_of({7}), events);
  EXPECT_FALSE(policy.promoted()[0]);
}

TEST(RobustCurvature, PromotesOutliersOfItsOwnAccord) {
  CurvaturePolicy policy({}, plan_of(6));
  PolicyEvents events;
  policy.add(probe_of({1, 1.5, 2, 2.5, 3, 1e6}), events);
  EXPECT_EQ(policy.promoted(), (std::vector<bool>{false, false, false, false, false, true}));
  CurvaturePolicy calm({}, plan_of(6));
  calm.add(probe_of({1, 1.5, 2, 2.5, 3, 3.5}), events);
  EXPECT_EQ(calm.promoted(), std::vector<bool>(6, false));
}

TEST(RobustCurvature, CapsRatesAndCountsNegativeCurvatureAsNone) {
  StepPlan plan = plan_of(2);
  CurvaturePolicy policy({}, plan);
  PolicyEvents events;
  policy.add(probe_of({76, -76}), events);
  policy.apply(0.1, plan);
  EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 0.5f);
  EXPECT_FLOAT_EQ(plan.layers[1].learning_rate_scale, 1.0f);
  EXPECT_EQ(events.size(), 1u);
  policy.apply(0.01, plan);
  EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 1.0f) << "a smaller rate needs no cap";
}

// Its steps shorten by themselves: what is too long makes the weight grow.
TEST(RobustCurvature, LeavesTheRatesOfWeightsBeforeBatchNorm) {
  StepPlan plan = plan_of(2);
  CurvaturePolicy policy({}, plan, {true, false});
  PolicyEvents events;
  policy.add(probe_of({76, 76}), events);
  policy.apply(0.1, plan);
  EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 1.0f);
  EXPECT_FLOAT_EQ(plan.layers[1].learning_rate_scale, 0.5f);
  CurvaturePolicy paper({.set = PolicySet::Paper}, plan_of(2), {true, false});
  paper.add(probe_of({100, 100}), events);
  paper.apply(0.1, plan);
  EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 0.5f) << "its rule knows no norms";
}

TEST(CurvaturePolicy, LooksPastValuesThatAreNoNumbers) {
  StepPlan plan = plan_of(1);
  CurvaturePolicy policy({}, plan);
  PolicyEvents events;
  policy.add(probe_of({std::nan("")}), events);
  policy.apply(0.1, plan);
  EXPECT_FLOAT_EQ(plan.layers[0].learning_rate_scale, 1.0f);
}

}  // namespace
}  // namespace triaccel
