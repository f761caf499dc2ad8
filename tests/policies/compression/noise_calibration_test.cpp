#include "triaccel/policies/compression/noise_calibration.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/policies/compression/saved_network.h"
#include "triaccel/base/error.h"
#include "triaccel/policies/compression/codec_rules.h"

namespace triaccel {
namespace {

/// Inputs of layers 0, 1, ..., one each, and one that belongs to no layer.
std::vector<SavedStatistics> inputs_of(std::int64_t layers) {
  std::vector<SavedStatistics> tensors(static_cast<std::size_t>(layers + 1),
                                       saved_tensor(SavedClass::Factor, 8, 8));
  for (std::int64_t l = 0; l < layers; ++l) tensors[static_cast<std::size_t>(l)].layer = l;
  return tensors;
}

CompressionNoise noise_of(const std::vector<double>& variances) {
  CompressionNoise noise;
  for (const double variance : variances) {
    noise.layers.push_back({.variance = variance, .square = 1});
    noise.compression_variance += variance;
  }
  return noise;
}

TEST(NoiseCalibration, ComparesSharesOfTheMeasuredAndThePredictedNoise) {
  NoiseCalibration calibration;
  // Half of the prediction each; a quarter and three quarters of the noise.
  calibration.add(noise_of({10, 30}), inputs_of(2), std::vector{0.1, 0.1, 0.7});
  EXPECT_DOUBLE_EQ(calibration.of_layer(0), 0.5);
  EXPECT_DOUBLE_EQ(calibration.of_layer(1), 1.5);
  // Twice the error and twice the noise: nothing new.
  calibration.add(noise_of({20, 30}), inputs_of(2), std::vector{0.2, 0.1, 0.7});
  EXPECT_NEAR(calibration.of_layer(1) / calibration.of_layer(0), 3, 1e-9);
}

TEST(NoiseCalibration, IsNeutralWhereNothingWasMeasuredOrPredicted) {
  NoiseCalibration calibration;
  for (const std::int64_t layer : {-1, 0, 5}) EXPECT_EQ(calibration.of_layer(layer), 1);
  // Layer 1 has no gradient, layer 2 reads nothing that is quantized.
  calibration.add(noise_of({10, 0, 10, 30}), inputs_of(4), std::vector{0.1, 0.1, 0.0, 0.1, 0.1});
  EXPECT_DOUBLE_EQ(calibration.of_layer(0), 0.5);
  EXPECT_EQ(calibration.of_layer(1), 1);
  EXPECT_EQ(calibration.of_layer(2), 1);
  const std::vector<SavedStatistics> tensors = calibration.calibrated(inputs_of(4));
  EXPECT_DOUBLE_EQ(sensitivity_of(tensors[0]), 0.5);
  EXPECT_EQ(sensitivity_of(tensors[4]), 1) << "of no layer";
  calibration.add(noise_of({NAN, INFINITY, 1, 1}), inputs_of(4), std::vector<double>(5, 0.1));
  EXPECT_DOUBLE_EQ(calibration.of_layer(0), 0.5) << "what is not finite says nothing";
}

TEST(NoiseCalibration, StaysWithinAFactorOfFourAndForgetsByHalves) {
  NoiseCalibration calibration;
  calibration.add(noise_of({1e-6, 1}), inputs_of(2), std::vector{1.0, 1e-6, 0.0});
  EXPECT_EQ(calibration.of_layer(0), 0.25);
  EXPECT_EQ(calibration.of_layer(1), 4);
  NoiseCalibration two;
  two.add(noise_of({1, 3}), inputs_of(2), std::vector{0.1, 0.1, 0.0});
  two.add(noise_of({1, 1}), inputs_of(2), std::vector{0.1, 0.1, 0.0});
  EXPECT_DOUBLE_EQ(two.of_layer(0), std::sqrt(0.5));
}

TEST(NoiseCalibration, ReadsItsStateBack) {
  NoiseCalibration calibration, other;
  calibration.add(noise_of({10, 0, 30}), inputs_of(3), std::vector<double>(4, 0.1));
  const StateView view = calibration.state("layers");
  other.restore({{"layers", view}}, "layers");
  for (std::int64_t layer = 0; layer < 3; ++layer)
    EXPECT_EQ(other.of_layer(layer), calibration.of_layer(layer));
  EXPECT_THROW(other.restore({}, "layers"), StorageError);
}

}  // namespace
}  // namespace triaccel
