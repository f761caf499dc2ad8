#include "triaccel/int8_run/steps.h"

#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/core/sampler.h"

namespace triaccel {
namespace {

const Int8Shape kDigits{.channels = 1, .image_size = 28, .classes = 10};

TEST(Int8Options, TakeTheRecipeWhereNothingIsSaid) {
  const int8::Network network = int8_network("lenet5", 0, kDigits);
  const Int8Options options = int8_options({.seed = 3, .bp_layers = 2}, network, 100);
  const int8::Recipe recipe = int8::recipe_for(network, 2);
  EXPECT_EQ(options.step.seed, 3u);
  EXPECT_EQ(options.at(0).rate_exponent, recipe.rate_exponent.first);
  EXPECT_EQ(options.at(99).rate_exponent, recipe.rate_exponent.last);
  EXPECT_EQ(options.at(99).gradient_bits, recipe.gradient_bits.last);
}

TEST(Int8Options, FollowWhatIsSaid) {
  const int8::Network network = int8_network("lenet5", 0, kDigits);
  const Int8Options options = int8_options(
      {.bp_layers = 1, .paper = true, .rate_exponent = "3-6", .gradient_bits = "2", .reach = 9},
      network, 4);
  EXPECT_EQ(options.at(0).rate_exponent, 3);
  EXPECT_EQ(options.at(3).rate_exponent, 6);
  EXPECT_EQ(options.at(3).gradient_bits, 2);
  EXPECT_EQ(options.at(0).noise.reach, 9);
  EXPECT_EQ(options.step.exponents, int8::Exponents::PerTensor);
  EXPECT_EQ(options.at(0).slope_exponent, int8::kSignOnly);
}

TEST(Int8Options, RefuseABatchWhoseGradientsDoNotFit) {
  const int8::Network network = int8_network("lenet5", 0, kDigits);
  EXPECT_NO_THROW(int8_options({.batch = 679, .bp_layers = 5}, network, 1));
  EXPECT_THROW(int8_options({.batch = 680, .bp_layers = 5}, network, 1), UsageError);
  EXPECT_NO_THROW(int8_options({.batch = 680, .bp_layers = 0}, network, 1));
}

TEST(Int8Options, OfZerothOrderAloneStartFromLargerLogits) {
  const int8::Network network = int8_network("lenet5", 0, kDigits);
  int8::State state = int8::initial_state(network, 1);
  const int8::State before = state;
  int8::scale_logits(state, int8_options({.bp_layers = 2}, network, 1).recipe);
  EXPECT_EQ(state, before);
  int8::scale_logits(state, int8_options({.bp_layers = 0}, network, 1).recipe);
  EXPECT_EQ(state.weights, before.weights);
  EXPECT_EQ(state.exponents.back(), before.exponents.back() + 2);
  EXPECT_EQ(state.exponents.front(), before.exponents.front());
}

TEST(Int8Options, OfPointCloudsStartFromLargerLogitsButForThePapersConventions) {
  const int8::Network network =
      int8_network("pointnet-plain", 8, {.channels = 3, .points = 64, .classes = 4});
  for (const std::int32_t bp_layers : {0, 1, 2, 8}) {
    EXPECT_GE(int8_options({.bp_layers = bp_layers}, network, 1).recipe.logit_gain, 6);
    EXPECT_EQ(int8_options({.bp_layers = bp_layers, .paper = true}, network, 1).recipe.logit_gain,
              0);
  }
}

TEST(Int8Options, OfPointCloudsTakeSmallerStepsInLongerRuns) {
  const int8::Network network =
      int8_network("pointnet-plain", 8, {.channels = 3, .points = 64, .classes = 4});
  const auto rates = [&](std::int64_t total_steps, std::string rate = "") {
    return int8_options({.bp_layers = 2, .rate_exponent = rate}, network, total_steps)
        .recipe.rate_exponent;
  };
  const int8::StepSchedule tuned = rates(2980);
  EXPECT_EQ(rates(100).first, tuned.first);
  EXPECT_EQ(rates(11920).first, tuned.first + 2);
  EXPECT_EQ(rates(11920).last, tuned.last + 2);
  EXPECT_EQ(rates(std::int64_t{1} << 60).last, int8::kMostRateExponent);
  EXPECT_EQ(rates(11920, "6-9").first, 6);
}

TEST(Int8Options, TrainAsManyLayersZerothOrderAsAsked) {
  const int8::Network network = int8_network("lenet5", 0, kDigits);
  EXPECT_EQ(int8_options({.bp_layers = 2, .zo_layers = 1}, network, 1).at(0).zo_layers, 1);
  EXPECT_EQ(int8_options({.bp_layers = 2}, network, 1).at(0).zo_layers, int8::kMostLayers);
}

TEST(Int8Options, OfPointCloudsTrainTheNarrowLayersAndBackpropagateFromACleanPass) {
  const int8::Network network =
      int8_network("pointnet-plain", 8, {.channels = 3, .points = 64, .classes = 4});
  const Int8Options ours = int8_options({.bp_layers = 2}, network, 1);
  EXPECT_EQ(ours.at(0).zo_layers, 4);
  EXPECT_EQ(ours.at(0).backprop_pass, int8::BackpropPass::Clean);
  const Int8Options paper = int8_options({.bp_layers = 2, .paper = true}, network, 1);
  EXPECT_EQ(paper.at(0).zo_layers, int8::kMostLayers);
  EXPECT_EQ(paper.at(0).backprop_pass, int8::BackpropPass::Minus);
  const Int8Options all = int8_options({.bp_layers = 2, .zo_layers = 6}, network, 1);
  EXPECT_EQ(all.at(0).zo_layers, 6);
}

TEST(Int8Options, MeasureSlopesInLargerUnitsWithLargerLogits) {
  const int8::Network network = int8_network("lenet5", 0, kDigits);
  const Int8Options before = int8_options({.bp_layers = 2}, network, 1);
  const Int8Options after = int8_options({.bp_layers = 2, .logit_gain = 5}, network, 1);
  EXPECT_EQ(after.recipe.logit_gain, 5);
  EXPECT_EQ(after.at(0).slope_exponent, before.at(0).slope_exponent + 5);
  const Int8Options signs =
      int8_options({.bp_layers = 2, .sign_only = true, .logit_gain = 5}, network, 1);
  EXPECT_EQ(signs.recipe.logit_gain, 5);
  EXPECT_EQ(signs.at(0).slope_exponent, int8::kSignOnly);
}

TEST(Int8Options, RejectWhatTheNetworkDoesNotHave) {
  const int8::Network network = int8_network("lenet5", 0, kDigits);
  EXPECT_THROW(int8_options({.bp_layers = 6}, network, 1), UsageError);
  EXPECT_THROW(int8_options({.kernel = "abacus"}, network, 1), UsageError);
  EXPECT_THROW(int8_network("resnet18", 0, kDigits), UsageError);
}

TEST(RunExtent, CountsShortStepsAtTheEndOfEpochsAndOfTheRun) {
  EXPECT_EQ(samples_in_run({.epochs = 2.5, .batch = 32}, 100), 250);
  EXPECT_EQ(steps_in_run({.epochs = 2.5, .batch = 32}, 100), 4 + 4 + 2);
  EXPECT_EQ(steps_in_run({.epochs = 9, .steps = 7, .batch = 32}, 100), 7);
  EXPECT_EQ(samples_in_run({.steps = 5, .batch = 32}, 100), 132);
  EXPECT_EQ(samples_in_run({.epochs = 1e-9, .batch = 32}, 100), 1);
}

}  // namespace
}  // namespace triaccel
