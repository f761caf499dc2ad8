#include "triaccel/optim/compact_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/optim/optimizer_case.h"
#include "triaccel/optim/moment_optimizer.h"

namespace triaccel {
namespace {

ParameterRef named(const at::Tensor& tensor) { return {"weight", tensor, 0}; }

/// The message of the UsageError that `call` throws.
template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(MatrixLayout, HasTheOutputsOnOneSide) {
  const MatrixLayout plain = matrix_layout(named(at::zeros({8, 3, 5, 7})));
  EXPECT_EQ(plain.rows, 8);
  EXPECT_EQ(plain.columns, 105);
  const MatrixLayout last =
      matrix_layout(named(at::zeros({8, 3, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast)));
  EXPECT_EQ(last.rows, 8);
  EXPECT_FALSE(last.transposed);
  const MatrixLayout transposed = matrix_layout(named(at::zeros({5, 8}).t()));
  EXPECT_EQ(transposed.rows, 5);
  EXPECT_EQ(transposed.columns, 8);
  EXPECT_TRUE(transposed.transposed);
}

TEST(MatrixLayout, TakesWhatHasOneRowOrColumnAsAVector) {
  for (const at::Tensor& tensor :
       {at::zeros({}), at::zeros({7}), at::zeros({1, 7}), at::zeros({7, 1}), at::zeros({0, 3})}) {
    EXPECT_TRUE(matrix_layout(named(tensor)).is_vector()) << tensor.sizes();
    EXPECT_EQ(matrix_layout(named(tensor)).columns, tensor.numel());
  }
}

TEST(MatrixLayout, RefusesOutputsInTheMiddleOfMemory) {
  const at::Tensor middle = at::zeros({3, 4, 5}).permute({1, 0, 2});
  EXPECT_EQ(refusal([&] { matrix_layout(named(middle)); }),
            "[--optimizer] parameter 'weight' must have its first dimension outermost or innermost "
            "in memory, got strides [5, 20, 1]; make it contiguous");
}

/// AdaLomo of one parameter, in FP64 and with torch's own operators.
struct AdaLomoInTorch {
  at::Tensor row, column;  // or the whole second moment, in `column`

  void step(const at::Tensor& parameter, const at::Tensor& gradient, int t, double learning_rate,
            double weight_decay) {
    const at::NoGradGuard no_gradient;
    const bool matrix = parameter.dim() > 1;
    const double gain = std::pow(t, -0.8);
    at::Tensor g = gradient.to(at::kDouble);
    g = matrix ? g.flatten(1) : g;
    const at::Tensor squares = g * g + 1e-30;
    if (!column.defined()) {
      row = at::zeros({g.dim() > 0 ? g.size(0) : 1}, at::kDouble);
      column = matrix ? at::zeros({g.size(1)}, at::kDouble) : at::zeros_like(g);
    }
    row.lerp_(matrix ? squares.mean(1) : row, gain);
    column.lerp_(matrix ? squares.mean(0) : squares, gain);
    at::Tensor u = g / (matrix ? at::outer(row, column) / row.mean() : column).sqrt();
    u = u / std::max(1.0, u.pow(2).mean().sqrt().item<double>());
    const double size =
        std::max(1e-3, parameter.to(at::kDouble).pow(2).mean().sqrt().item<double>());
    parameter.mul_(1 - learning_rate * weight_decay)
        .sub_((learning_rate * size * u).reshape(parameter.sizes()));
  }
};

TEST(AdaLomo, FollowsThePaperThroughClippingAndLossScaling) {
  OptimizerCase test;
  GradientControl control({.clip_norm = 1, .loss_scaling = true}, test.ours, 2);
  const auto optimizer =
      make_optimizer({.kind = OptimizerKind::AdaLomo, .weight_decay = 0.05}, test.ours);
  std::vector<AdaLomoInTorch> references(test.ours.size());
  for (int t = 1; t <= 20; ++t) {
    test.draw_gradients(control.loss_scale().item<double>());
    torch::nn::utils::clip_grad_norm_(test.reference, 1);
    for (std::size_t i = 0; i < references.size(); ++i)
      references[i].step(test.reference[i], test.reference[i].grad(), t, 0.1, 0.05);
    control.measure();
    optimizer->update(control.update_inputs(test.learning_rates));
    ASSERT_LE(test.largest_difference(), 4e-6) << "after step " << t;
  }
}

/// Trains a weight and the same in another memory order, and returns the largest difference.
double difference_by_memory_order(OptimizerKind kind, const at::Tensor& weight,
                                  const at::Tensor& same) {
  const std::vector<at::Tensor> both = {weight.detach().clone().requires_grad_(),
                                        same.detach().clone().requires_grad_()};
  EXPECT_NE(both[0].strides(), both[1].strides());
  for (const at::Tensor& one : both) {
    const std::vector<ParameterRef> parameters = {named(one)};
    GradientControl control({}, parameters, 1);
    const auto optimizer = make_optimizer({.kind = kind}, parameters);
    torch::manual_seed(2);
    for (int i = 0; i < 5; ++i) {
      one.mutable_grad() = at::empty_like(one).copy_(at::randn(one.sizes()));
      control.measure();
      optimizer->update(control.update_inputs(torch::tensor({0.1f})));
    }
  }
  return (both[0] - both[1]).abs().max().item<double>();
}

TEST(AdaLomo, IsTheSameInEveryMemoryOrder) {
  const at::Tensor kernel = at::randn({6, 4, 3, 3}), matrix = at::randn({9, 5});
  EXPECT_LE(difference_by_memory_order(OptimizerKind::AdaLomo, kernel,
                                       kernel.contiguous(at::MemoryFormat::ChannelsLast)),
            1e-6);
  EXPECT_LE(difference_by_memory_order(OptimizerKind::AdaLomo, matrix, matrix.t().contiguous().t()),
            1e-6);
}

TEST(ApolloMini, IsTheSameInEveryMemoryOrder) {
  const at::Tensor kernel = at::randn({6, 4, 3, 3}), matrix = at::randn({9, 5});
  EXPECT_LE(difference_by_memory_order(OptimizerKind::ApolloMini, kernel,
                                       kernel.contiguous(at::MemoryFormat::ChannelsLast)),
            1e-5);
  EXPECT_LE(
      difference_by_memory_order(OptimizerKind::ApolloMini, matrix, matrix.t().contiguous().t()),
      1e-5);
}

TEST(AdaLomo, KeepsOneNumberPerRowAndColumn) {
  OptimizerCase test;
  const auto optimizer = make_optimizer({.kind = OptimizerKind::AdaLomo}, test.ours);
  EXPECT_EQ(optimizer->state_bytes(), 4 * ((8 + 27) + 8 + 5000 + (17 + 31) + 1));
  const StateMap state = saved_state(*optimizer);
  EXPECT_EQ(state.at("row_moment/p0").shape, std::vector<std::int64_t>({8}));
  EXPECT_EQ(state.at("column_moment/p0").shape, std::vector<std::int64_t>({3, 3, 3}));
  EXPECT_EQ(state.at("second_moment/p1").shape, std::vector<std::int64_t>({8}));
  EXPECT_EQ(state.size(), 7u);
}

TEST(ApolloMini, KeepsTwoNumbersPerPositionOnTheLongerSide) {
  OptimizerCase test;
  const auto optimizer = make_optimizer({.kind = OptimizerKind::ApolloMini}, test.ours);
  EXPECT_EQ(optimizer->state_bytes(), 4 * ((2 * 27 + 1) + 2 * 8 + 2 * 5000 + (2 * 31 + 1) + 2 * 1));
  const StateMap state = saved_state(*optimizer);
  EXPECT_EQ(state.at("first_moment/p0").shape, std::vector<std::int64_t>({3, 3, 3}));
  EXPECT_EQ(state.at("second_moment/p3").shape, std::vector<std::int64_t>({31}));
  EXPECT_EQ(state.at("update_norm/p3").shape, std::vector<std::int64_t>({1}));
  EXPECT_EQ(state.size(), 12u);
}

TEST(ApolloMini, TrainsVectorsAsAdamW) {
  OptimizerCase test, other;
  GradientControl control({}, test.ours, 2), other_control({}, other.ours, 2);
  const auto optimizer = make_optimizer({.kind = OptimizerKind::ApolloMini}, test.ours);
  const auto adamw = make_optimizer({.kind = OptimizerKind::AdamW}, other.ours);
  for (int step = 0; step < 3; ++step) {
    test.draw_gradients();
    for (std::size_t i = 0; i < test.ours.size(); ++i)
      other.ours[i].tensor.mutable_grad() = test.ours[i].tensor.grad();
    control.measure();
    optimizer->update(control.update_inputs(test.learning_rates));
    other_control.measure();
    adamw->update(other_control.update_inputs(other.learning_rates));
  }
  for (const std::size_t i : {1u, 2u, 4u})
    EXPECT_TRUE(at::equal(test.ours[i].tensor, other.ours[i].tensor)) << i;
  EXPECT_FALSE(at::equal(test.ours[3].tensor, other.ours[3].tensor));
}

/// The matrix p3 after four steps.
at::Tensor apollo_weights(const OptimizerOptions& options) {
  OptimizerCase test;
  GradientControl control({}, test.ours, 2);
  const auto optimizer = make_optimizer(options, test.ours);
  torch::manual_seed(4);
  for (int i = 0; i < 4; ++i) {
    test.draw_gradients();
    control.measure();
    optimizer->update(control.update_inputs(test.learning_rates));
  }
  return test.ours[3].tensor.detach();
}

TEST(ApolloMini, DrawsItsProjectionsBySeedAndInterval) {
  const at::Tensor weights = apollo_weights({.kind = OptimizerKind::ApolloMini, .seed = 1});
  EXPECT_TRUE(at::equal(weights, apollo_weights({.kind = OptimizerKind::ApolloMini, .seed = 1})));
  EXPECT_FALSE(at::equal(weights, apollo_weights({.kind = OptimizerKind::ApolloMini, .seed = 2})));
  const at::Tensor sooner =
      apollo_weights({.kind = OptimizerKind::ApolloMini, .projection_interval = 2, .seed = 1});
  EXPECT_FALSE(at::equal(weights, sooner));
}

TEST(CompactOptimizers, RefuseOptionsWithASentence) {
  OptimizerCase test;
  const auto made = [&](const OptimizerOptions& options) {
    return refusal([&] { make_optimizer(options, test.ours); });
  };
  EXPECT_EQ(made({.kind = OptimizerKind::AdaLomo, .state = StateFormat::Fp8}),
            "[--optimizer-state] only sgd and adamw have such a state; omit it for adalomo, "
            "whose state is small");
  EXPECT_EQ(made({.kind = OptimizerKind::ApolloMini, .state = StateFormat::Fp8}),
            "[--optimizer-state] only sgd and adamw have such a state; omit it for "
            "apollo-mini, whose state is small");
  EXPECT_EQ(made({.kind = OptimizerKind::AdaLomo, .weight_decay = -1}),
            "[--optimizer] weight_decay must not be negative, got -1");
  EXPECT_EQ(made({.kind = OptimizerKind::ApolloMini, .beta2 = 1}),
            "[--optimizer] betas must be in [0, 1), got 1");
  EXPECT_EQ(made({.kind = OptimizerKind::ApolloMini, .projection_interval = 0}),
            "[--optimizer] projection_interval must be at least 1, got 0");
  EXPECT_EQ(refusal([&] { make_moment_optimizer({.kind = OptimizerKind::AdaLomo}, test.ours); }),
            "[--optimizer] adalomo has no moments of its parameters' shapes; use sgd or adamw "
            "here");
}

}  // namespace
}  // namespace triaccel
