#include "triaccel/optim/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/optim/optimizer_case.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// Trains both sides for 20 steps and holds them together after each.
void expect_same_path(OptimizerCase& test, const OptimizerOptions& options,
                      torch::optim::Optimizer& reference, double clip_norm = 0,
                      bool loss_scaling = false) {
  GradientControl control({.clip_norm = clip_norm, .loss_scaling = loss_scaling}, test.ours, 2);
  const auto optimizer = make_optimizer(options, test.ours);
  for (int step = 1; step <= 20; ++step) {
    test.draw_gradients(control.loss_scale().item<double>());
    if (clip_norm > 0) torch::nn::utils::clip_grad_norm_(test.reference, clip_norm);
    reference.step();
    control.measure();
    optimizer->update(control.update_inputs(test.learning_rates));
    ASSERT_LE(test.largest_difference(), 4e-6) << "after step " << step;
  }
}

TEST(Sgd, FollowsTorchStepByStep) {
  for (const bool nesterov : {false, true}) {
    OptimizerCase test;
    torch::optim::SGD reference(
        test.reference,
        torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4).nesterov(nesterov));
    expect_same_path(test, {.kind = OptimizerKind::Sgd, .nesterov = nesterov}, reference);
  }
}

TEST(Sgd, FollowsTorchThroughClippingAndLossScaling) {
  OptimizerCase test;
  torch::optim::SGD reference(test.reference,
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4));
  expect_same_path(test, {}, reference, 1.0, true);
}

TEST(AdamW, FollowsTorchStepByStep) {
  OptimizerCase test;
  torch::optim::AdamW reference(test.reference, torch::optim::AdamWOptions(0.1).weight_decay(0.05));
  expect_same_path(test, {.kind = OptimizerKind::AdamW, .weight_decay = 0.05}, reference);
}

class EveryOptimizer : public testing::TestWithParam<OptimizerOptions> {
 protected:
  OptimizerCase test_;
  GradientControl control_ = GradientControl({}, test_.ours, 2);
  std::unique_ptr<Optimizer> optimizer_ = make_optimizer(GetParam(), test_.ours);

  void step() {
    test_.draw_gradients();
    control_.measure();
    optimizer_->update(control_.update_inputs(test_.learning_rates));
  }

  /// Applies the present gradients a few at a time and drops them, as during backward.
  void step_in_backward() {
    control_.start_gathering();
    test_.release_gradients([&] {
      control_.gather();
      optimizer_->update(control_.update_inputs(test_.learning_rates, UpdateGate::Layer));
    });
    control_.decide();
  }
};

TEST_P(EveryOptimizer, TakesTheSameStepsDuringBackward) {
  OptimizerCase other;
  GradientControl other_control({}, other.ours, 2);
  const auto other_optimizer = make_optimizer(GetParam(), other.ours);
  for (int i = 0; i < 3; ++i) {
    test_.draw_gradients();
    for (std::size_t p = 0; p < test_.ours.size(); ++p)
      other.ours[p].tensor.mutable_grad() = test_.ours[p].tensor.grad();
    other_control.measure();
    other_optimizer->update(other_control.update_inputs(other.learning_rates));
    step_in_backward();
    ASSERT_TRUE(test_.equals(other.copies())) << "after step " << i;
  }
  EXPECT_EQ(control_.read().applied_steps, 3);
}

TEST_P(EveryOptimizer, HoldsBackOnlyTheLayerThatIsNotFiniteDuringBackward) {
  step();
  const std::vector<at::Tensor> before = test_.copies();
  test_.draw_gradients();
  test_.ours[4].tensor.mutable_grad().fill_(INFINITY);
  step_in_backward();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(torch::equal(test_.ours[i].tensor, before[i]), test_.ours[i].layer == 1) << i;
  const GradientReport report = control_.read();
  EXPECT_EQ(report.applied_steps, 1);
  EXPECT_EQ(report.skipped_steps, 1);
  EXPECT_EQ(report.first_skipped_layer, 1);
}

TEST_P(EveryOptimizer, HoldsBackTheRestOfALayerOnceItIsNotFinite) {
  const std::vector<at::Tensor> before = test_.copies();
  test_.draw_gradients();
  test_.ours[1].tensor.mutable_grad().fill_(NAN);  // gathered before parameter 0, after 3 and 4
  step_in_backward();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(torch::equal(test_.ours[i].tensor, before[i]), i < 3) << i;
}

TEST_P(EveryOptimizer, GoesOnFromItsStateAsIfNothingHadHappened) {
  step();
  const StateMap optimizer_state = saved_state(*optimizer_), control_state = saved_state(control_);
  const std::vector<at::Tensor> weights = test_.copies();
  torch::manual_seed(9);
  step();
  const std::vector<at::Tensor> expected = test_.copies();

  OptimizerCase other;
  const at::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < weights.size(); ++i) other.ours[i].tensor.copy_(weights[i]);
  GradientControl control({}, other.ours, 2);
  const auto optimizer = make_optimizer(GetParam(), other.ours);
  optimizer->restore(optimizer_state);
  control.restore(control_state);
  torch::manual_seed(9);
  other.draw_gradients();
  control.measure();
  optimizer->update(control.update_inputs(other.learning_rates));
  EXPECT_TRUE(other.equals(expected));
}

TEST_P(EveryOptimizer, ChangesNothingWhenAGradientIsNotFinite) {
  step();
  const std::vector<at::Tensor> before = test_.copies();
  const StateMap state = saved_state(*optimizer_);
  test_.draw_gradients();
  test_.ours[2].tensor.mutable_grad()[4097] = std::numeric_limits<float>::infinity();
  control_.measure();
  optimizer_->update(control_.update_inputs(test_.learning_rates));
  EXPECT_TRUE(test_.equals(before));
  for (const StateView& view : optimizer_->state())
    EXPECT_TRUE(std::ranges::equal(view.bytes, state.at(view.name).bytes)) << view.name;
  EXPECT_EQ(control_.read().applied_steps, 1);
}

TEST_P(EveryOptimizer, TrainsOnScaledF16GradientsAsOnTheSameInF32) {
  OptimizerCase other;
  GradientControl other_control({}, other.ours, 2);
  const auto other_optimizer = make_optimizer(GetParam(), other.ours);
  for (int i = 0; i < 3; ++i) {
    test_.draw_gradients();
    for (std::size_t p = 0; p < test_.ours.size(); ++p) {
      const at::Tensor scale = control_.layer_scales()[test_.ours[p].layer][0];
      const at::Tensor scaled = (test_.ours[p].tensor.grad() * scale).to(at::kHalf);
      test_.ours[p].tensor.mutable_grad() = scaled;
      other.ours[p].tensor.mutable_grad() = scaled.to(at::kFloat) / scale;
    }
    control_.measure();
    optimizer_->update(control_.update_inputs(test_.learning_rates));
    control_.finish_step();
    other_control.measure();
    other_optimizer->update(other_control.update_inputs(other.learning_rates));
    ASSERT_TRUE(test_.equals(other.copies())) << "after step " << i;
  }
  EXPECT_NE(control_.layer_scales()[0][0].item<float>(), 1) << "so the scale was really in use";
}

TEST_P(EveryOptimizer, LeavesParametersWithoutAGradientAlone) {
  test_.draw_gradients();
  test_.ours[1].tensor.mutable_grad() = at::Tensor();
  const std::vector<at::Tensor> before = test_.copies();
  control_.measure();
  optimizer_->update(control_.update_inputs(test_.learning_rates));
  EXPECT_TRUE(torch::equal(test_.ours[1].tensor, before[1]));
  EXPECT_FALSE(torch::equal(test_.ours[0].tensor, before[0]));
}

TEST_P(EveryOptimizer, FollowsTheRateOfEachLayer) {
  test_.learning_rates = torch::tensor({0.0f, 0.1f});
  const std::vector<at::Tensor> before = test_.copies();
  step();
  EXPECT_TRUE(torch::equal(test_.ours[0].tensor, before[0]));
  EXPECT_FALSE(torch::equal(test_.ours[4].tensor, before[4]));
}

TEST_P(EveryOptimizer, RefusesAStateOfAnotherModelBeforeItChangesAnything) {
  step();
  StateMap state = saved_state(*optimizer_);
  const StateMap before = state;
  state.begin()->second.bytes = state.begin()->second.bytes.subspan(4);
  EXPECT_THROW(optimizer_->restore(state), StorageError);
  state = before;
  state.erase(std::prev(state.end()));
  EXPECT_THROW(optimizer_->restore(state), StorageError);
  for (const StateView& view : optimizer_->state())
    EXPECT_TRUE(std::ranges::equal(view.bytes, before.at(view.name).bytes)) << view.name;
}

TEST_P(EveryOptimizer, NeedsALearningRateForEveryLayer) {
  test_.draw_gradients();
  control_.measure();
  EXPECT_THROW(optimizer_->update(control_.update_inputs(torch::ones({1}))), UsageError);
}

class EveryMomentOptimizer : public EveryOptimizer {};

TEST_P(EveryMomentOptimizer, CountsItsStateBytes) {
  std::int64_t bytes = 0;
  for (const ParameterRef& parameter : test_.ours) {
    const std::int64_t count = parameter.tensor.numel();
    bytes += GetParam().state == StateFormat::Fp8 ? (count + 127) / 128 * 129 : 4 * count;
  }
  EXPECT_EQ(optimizer_->state_bytes(), bytes * (GetParam().kind == OptimizerKind::Sgd ? 1 : 2));
  EXPECT_EQ(optimizer_->host_state_bytes(), 0) << "a CPU has no other memory";
}

TEST_P(EveryMomentOptimizer, HandsItsStateToOneWithTheOtherFormat) {
  for (int i = 0; i < 3; ++i) step();
  const StateMap state = saved_state(*optimizer_);
  OptimizerOptions options = GetParam();
  options.state = options.state == StateFormat::Fp32 ? StateFormat::Fp8 : StateFormat::Fp32;
  const auto other = make_optimizer(options, OptimizerCase().ours);
  other->restore(state);
  for (const StateView& view : other->state()) {
    const std::vector<float> wanted = numbers_from<float>(state, view.name);
    const std::vector<float> found = numbers_from<float>(saved_state(*other), view.name);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (options.state == StateFormat::Fp32)
        ASSERT_EQ(found[i], wanted[i]) << view.name << " " << i;
      else
        ASSERT_NEAR(found[i], wanted[i], std::abs(wanted[i]) / 8 + 1e-4f) << view.name << " " << i;
  }
}

TEST_P(EveryOptimizer, ReachesTheMinimumOfAQuadratic) {
  // Steps of AdaLomo are relative to the weights, which shrink.
  const double peak = GetParam().kind == OptimizerKind::AdaLomo ? 0.5 : 0.1;
  for (int i = 0; i < 300; ++i) {
    for (std::size_t p = 0; p < test_.ours.size(); ++p)  // curvature 0.1 to 1, minimum at 0
      test_.ours[p].tensor.mutable_grad() =
          test_.ours[p].tensor.detach() * (0.1 + 0.9 * static_cast<double>(p) / 4);
    test_.learning_rates.fill_(peak * (300 - i) / 300);
    control_.measure();
    optimizer_->update(control_.update_inputs(test_.learning_rates));
  }
  for (const ParameterRef& parameter : test_.ours)
    EXPECT_LT(parameter.tensor.detach().pow(2).mean().item<double>(), 1e-4) << parameter.name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryOptimizer, testing::ValuesIn(every_optimizer()),
                         [](const auto& which) { return optimizer_text(which.param); });
INSTANTIATE_TEST_SUITE_P(Kinds, EveryMomentOptimizer, testing::ValuesIn(every_moment_optimizer()),
                         [](const auto& which) { return optimizer_text(which.param); });

TEST(MakeOptimizer, RoundsStatesInEightBitsByTheSeed) {
  const auto weights_after_two_steps = [](std::uint64_t seed) {
    OptimizerCase test;
    GradientControl control({}, test.ours, 2);
    const auto optimizer = make_optimizer({.state = StateFormat::Fp8, .seed = seed}, test.ours);
    torch::manual_seed(4);
    for (int i = 0; i < 2; ++i) {
      test.draw_gradients();
      control.measure();
      optimizer->update(control.update_inputs(test.learning_rates));
    }
    return test.ours[2].tensor.detach();
  };
  EXPECT_TRUE(torch::equal(weights_after_two_steps(1), weights_after_two_steps(1)));
  EXPECT_FALSE(torch::equal(weights_after_two_steps(1), weights_after_two_steps(2)));
}

TEST(MakeOptimizer, NamesStatesByParameter) {
  OptimizerCase test;
  EXPECT_EQ(make_optimizer({}, test.ours)->state()[0].name, "momentum/p0");
}

TEST(MakeOptimizer, RefusesOptionsOutOfRange) {
  OptimizerCase test;
  EXPECT_THROW(make_optimizer({.momentum = 1}, test.ours), UsageError);
  EXPECT_THROW(make_optimizer({.weight_decay = -1}, test.ours), UsageError);
  EXPECT_THROW(make_optimizer({.kind = OptimizerKind::AdamW, .beta2 = 1}, test.ours), UsageError);
}

}  // namespace
}  // namespace triaccel
