#include "triaccel/policies/compression/tensor_sensitivities.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/policies/compression/saved_network.h"
#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/compression/predicted_error.h"

namespace triaccel {
namespace {

SavedPlan groups_of(int bits) {
  return {.codec = SavedCodec::Groups, .eighths = static_cast<std::uint8_t>(8 * bits)};
}

/// A norm's input, the convolution's input derived from it, one stored apart, and a mask.
struct Planned {
  std::vector<SavedStatistics> tensors = {
      saved_tensor(SavedClass::NormInput, 8, 16), saved_tensor(SavedClass::Factor, 8, 16),
      saved_tensor(SavedClass::Factor, 8, 16), saved_tensor(SavedClass::Sign, 8, 16)};
  std::vector<SavedPlan> plans = {
      groups_of(4), {.codec = SavedCodec::Derived}, groups_of(2), {.codec = SavedCodec::Mask}};

  Planned() {
    tensors[1].derivation = Derivation::Affine;
    tensors[1].source = 0;
  }
  double error_of(std::size_t tensor) const {
    return ErrorModel(tensors[tensor]).of(plans[tensor], 1);
  }
};

TEST(LonePlans, KeepAllButOneStoredTensorAndWhatIsDerivedFromIt) {
  const Planned network;
  const std::vector<LonePlan> lone = lone_plans(network.tensors, network.plans);
  ASSERT_EQ(lone.size(), 2u);
  EXPECT_EQ(lone[0].tensor, 0u);
  EXPECT_EQ(lone[0].plans,
            (std::vector<SavedPlan>{
                network.plans[0], network.plans[1], {}, {.codec = SavedCodec::Mask}}));
  EXPECT_EQ(lone[1].tensor, 2u);
  EXPECT_EQ(lone[1].plans,
            (std::vector<SavedPlan>{{}, {}, network.plans[2], {.codec = SavedCodec::Mask}}));
}

TEST(TensorSensitivities, PredictTheErrorsThatWereMeasured) {
  const Planned network;
  TensorSensitivities sensitivities;
  EXPECT_EQ(sensitivities.applied(network.tensors), network.tensors) << "not measured yet";
  const std::vector<double> measured = {0.03, 0.002};
  sensitivities.learn(network.tensors, lone_plans(network.tensors, network.plans), measured);
  const auto tensors = sensitivities.applied(network.tensors);
  const double first = sensitivity_of(tensors[0]) + sensitivity_of(tensors[1]);
  EXPECT_NEAR(first * network.error_of(0), measured[0], 1e-9);
  EXPECT_NEAR(sensitivity_of(tensors[2]) * network.error_of(2), measured[1], 1e-9);
  EXPECT_NEAR(sensitivity_of(tensors[1]) / sensitivity_of(tensors[0]), 5, 1e-9)
      << "as is usual for a convolution's input and a norm's";
  const double mean = std::sqrt(sensitivity_of(tensors[1]) * sensitivity_of(tensors[2]));
  EXPECT_NEAR(sensitivity_of(tensors[3]), mean, 1e-9) << "not stored with loss: as the others";
}

TEST(TensorSensitivities, StayNearTheirMean) {
  const Planned network;
  TensorSensitivities sensitivities;
  sensitivities.learn(network.tensors, lone_plans(network.tensors, network.plans),
                      std::vector{1.0, 1e-12});
  const auto tensors = sensitivities.applied(network.tensors);
  EXPECT_NEAR(sensitivity_of(tensors[1]) / sensitivity_of(tensors[2]), 64 * 64, 1);
}

TEST(TensorSensitivities, IgnoreWhatIsNotFinite) {
  const Planned network;
  TensorSensitivities sensitivities;
  EXPECT_FALSE(sensitivities.learn(network.tensors, lone_plans(network.tensors, network.plans),
                                   std::vector{NAN, 0.0}));
  EXPECT_EQ(sensitivities.applied(network.tensors), network.tensors);
}

TEST(TensorSensitivities, AllowForRangesThatGrowWithTheBatch) {
  Planned network;
  network.plans[0] = {.codec = SavedCodec::Levelled, .eighths = 32};
  const auto lone = lone_plans(network.tensors, network.plans);
  TensorSensitivities narrow, wide;
  network.tensors[0].levelled_squared_range = kLeastLevelledRange / 4;
  narrow.learn(network.tensors, lone, std::vector{0.01, 0.01});
  network.tensors[0].levelled_squared_range = kLeastLevelledRange;
  wide.learn(network.tensors, lone, std::vector{0.01, 0.01});
  EXPECT_NEAR(sensitivity_of(narrow.applied(network.tensors)[0]) /
                  sensitivity_of(wide.applied(network.tensors)[0]),
              4, 1e-9);
}

TEST(TensorSensitivities, AreOfTheTensorsThatWereMeasured) {
  Planned network;
  TensorSensitivities sensitivities;
  EXPECT_FALSE(sensitivities.are_of_others(network.tensors)) << "not measured yet";
  EXPECT_TRUE(sensitivities.learn(network.tensors, lone_plans(network.tensors, network.plans),
                                  std::vector{0.03, 0.002}));
  EXPECT_FALSE(sensitivities.are_of_others(network.tensors));
  network.tensors[2].kind = SavedClass::Positive;
  EXPECT_FALSE(sensitivities.are_of_others(network.tensors)) << "its values have many zeros now";
  network.tensors[2].sizes[1] = 4;
  EXPECT_TRUE(sensitivities.are_of_others(network.tensors));
  EXPECT_EQ(sensitivities.applied(network.tensors), network.tensors);
}

TEST(TensorSensitivities, ReadTheirStateBack) {
  const Planned network;
  TensorSensitivities measured, other;
  measured.learn(network.tensors, lone_plans(network.tensors, network.plans),
                 std::vector{0.03, 0.002});
  StateMap state;
  const std::vector<StateView> views = measured.state("tensors");
  for (const StateView& view : views) state.emplace(view.name, view);
  other.restore(state, "tensors");
  EXPECT_EQ(other.applied(network.tensors), measured.applied(network.tensors));
  other.restore({}, "tensors");
  EXPECT_EQ(other.applied(network.tensors), network.tensors) << "an older checkpoint";
}

}  // namespace
}  // namespace triaccel
