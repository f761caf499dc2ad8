#include "triaccel/int8/training/state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/int8/layers/sums.h"
#include "triaccel/int8/training/random_stream.h"
#include "triaccel/int8/training/weight_update.h"

namespace triaccel::int8 {
namespace {

TEST(Networks, HaveTheirPublishedSizes) {
  std::int64_t lenet = 0, point = 0;
  for (const Layer& layer : lenet5({}).layers) lenet += layer.weight_count();
  for (const Layer& layer : pointnet({}).layers) point += layer.weight_count();
  EXPECT_EQ(lenet, 107550);
  EXPECT_EQ(point, 813248);
}

TEST(MakeNetwork, RejectsLayersThatDoNotMeet) {
  EXPECT_THROW(make_network({}), UsageError);
  EXPECT_THROW(make_network({{.name = "a", .in_channels = 4, .out_channels = 3, .relu = true}}),
               UsageError);
  EXPECT_THROW(make_network({{.name = "a", .in_channels = 4, .out_channels = 3},
                             {.name = "b", .in_channels = 4, .out_channels = 2, .relu = false}}),
               UsageError);
  EXPECT_THROW(lenet5({.image_size = 30}), UsageError);
}

TEST(XavierGrid, JustHoldsTheUniformBound) {
  for (const std::int64_t fans : {2, 6, 94, 175, 204, 550, 904, 2048, 100000}) {
    const WeightGrid grid = xavier_grid(fans / 2, fans - fans / 2);
    const double bound = std::sqrt(6.0 / static_cast<double>(fans));
    EXPECT_NEAR(std::ldexp(grid.largest, grid.exponent), bound, 0.02 * bound) << fans;
    EXPECT_TRUE(grid.largest >= 63 && grid.largest <= 127) << fans;
  }
}

TEST(InitialState, IsUniformAndDependsOnTheSeed) {
  const State state = initial_state(lenet5({}), 1);
  EXPECT_NE(state.weights, initial_state(lenet5({}), 2).weights);
  double sum = 0, squares = 0;
  const std::int64_t count = state.network.layers[2].weight_count();
  const WeightGrid grid = xavier_grid(784, 120);
  for (std::int64_t i = 0; i < count; ++i) {
    const double w = state.weights[static_cast<std::size_t>(state.network.offsets[2] + i)];
    EXPECT_LE(std::abs(w), grid.largest);
    sum += w;
    squares += w * w;
  }
  EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.8);
  EXPECT_NEAR(squares / static_cast<double>(count), grid.largest * (grid.largest + 1) / 3.0, 40);
}

TEST(ExportWeights, AndImportAreTheSameWeights) {
  const State from = initial_state(lenet5({.image_size = 8}), 1);
  State to = initial_state(lenet5({.image_size = 8}), 2);
  std::vector<NamedWeights> weights = export_weights(from);
  EXPECT_EQ(weights[0].name, "conv1");
  EXPECT_EQ(weights[1].shape, (std::vector<std::int64_t>{16, 5, 5, 6}));
  import_weights(to, weights);
  EXPECT_EQ(state_hash(to), state_hash(from));
  weights[3].data[7] = -128;
  EXPECT_THROW(import_weights(to, weights), UsageError);
  weights.pop_back();
  EXPECT_THROW(import_weights(to, weights), UsageError);
}

TEST(WidenSaturatedLayer, HalvesMantissasAndDoublesTheirUnit) {
  State state = initial_state(lenet5({.image_size = 8}), 1);
  const State before = state;
  EXPECT_FALSE(widen_saturated_layer(state, 2, 655, 1));
  EXPECT_EQ(state, before);
  const auto first = static_cast<std::size_t>(state.network.offsets[2]);
  const auto count = static_cast<std::size_t>(state.network.layers[2].weight_count());
  for (std::size_t i = 0; i < count / 50; ++i) state.weights[first + i] = 127;
  const State full = state;
  EXPECT_TRUE(widen_saturated_layer(state, 2, 655, 1));
  EXPECT_EQ(state.exponents[2], before.exponents[2] + 1);
  double drift = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int moved = 2 * state.weights[first + i] - full.weights[first + i];
    ASSERT_LE(std::abs(moved), 1) << i;
    drift += moved;
  }
  EXPECT_LT(std::abs(drift), 4 * std::sqrt(static_cast<double>(count)));
}

TEST(ApplyGradient, RoundsWithoutBias) {
  State state = initial_state(
      make_network({{.name = "a", .in_channels = 4000, .out_channels = 2, .relu = false}}), 1);
  std::fill(state.weights.begin(), state.weights.end(), std::int8_t{0});
  const std::vector<std::int32_t> gradient(4000, 300000);  // 2.29 units of 2^17
  apply_gradient(state, 0, 4000, gradient.data(), 17, UpdateRounding::Stochastic, 5);
  double sum = 0;
  for (std::size_t i = 0; i < 4000; ++i) sum -= state.weights[i];
  EXPECT_NEAR(sum / 4000, 300000 / 131072.0, 0.03);
}

TEST(Shadow, CatchesSumsThatLeaveTheirType) {
  const std::int8_t values[2] = {127, -127};
  const std::int32_t sums[2] = {2147483600, 0};
  EXPECT_THROW(check_scaled_sum(values, 2, 100, sums), std::logic_error);
  EXPECT_NO_THROW(check_scaled_sum(values, 2, -100, sums));
  const std::vector<std::int8_t> ones(16, 1);
  const std::int32_t wrong = 15;
  EXPECT_THROW(check_product({.rows = 1, .columns = 1, .depth = 16, .c_stride = 1}, ones.data(),
                             ones.data(), &wrong),
               std::logic_error);
}

}  // namespace
}  // namespace triaccel::int8
