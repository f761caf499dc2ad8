#include "triaccel/optim/zeroth_order.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "triaccel/base/error.h"
#include "triaccel/optim/gradient_control.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {
namespace {

const std::vector<LayerPlan> kByLosses = {{.gradient = GradientSource::ZerothOrder}};

/// A network of 210 parameters, its loss as a function of all of them at once, in FP64.
struct SmallNetwork {
  static constexpr std::int64_t kSamples = 8, kInputs = 13, kClasses = 15;
  static constexpr std::int64_t kParameters = (kInputs + 1) * kClasses;
  at::Tensor inputs, labels;

  SmallNetwork() {
    at::manual_seed(4);
    inputs = at::cat(
        {at::randn({kSamples, kInputs}, at::kDouble), at::ones({kSamples, 1}, at::kDouble)}, 1);
    labels = at::randint(kClasses, {kSamples, 1, 1}, at::kLong);
  }

  /// Of every row of `weights` [n, kParameters].
  at::Tensor losses(const at::Tensor& weights) const {
    const std::int64_t n = weights.size(0);
    const at::Tensor logits = inputs.mm(
        weights.view({n, kClasses, kInputs + 1}).permute({2, 0, 1}).reshape({kInputs + 1, -1}));
    const at::Tensor scores = logits.view({kSamples, n, kClasses}).log_softmax(2);
    return -scores.gather(2, labels.expand({kSamples, n, 1})).squeeze(2).mean(0);
  }
};

/// Directions of a run, as they move weights that are 0.
class Directions {
 public:
  Directions(std::int64_t elements, std::int64_t a_step)
      : weights_(at::zeros({elements})),
        a_step_(a_step),
        zeroth_({.epsilon = 0x1p-6, .directions = a_step}, {{"w", weights_, 0}}) {
    zeroth_.follow(kByLosses);
  }

  at::Tensor next_step() {
    at::Tensor z = at::empty({a_step_, weights_.numel()}, at::kDouble);
    for (std::int64_t d = 0; d < a_step_; ++d) {
      zeroth_.go_to(2 * d + 1);
      z[d].copy_(weights_);
    }
    zeroth_.go_back();
    const std::vector<float> nothing(static_cast<std::size_t>(a_step_));
    zeroth_.redo({.step = step_++, .gradients = nothing});
    return z.mul_(0x1p6);
  }

 private:
  at::Tensor weights_;
  std::int64_t a_step_;
  std::int64_t step_ = 0;
  ZerothOrder zeroth_;
};

TEST(ZerothOrder, EstimatesTheGradientWithoutBias) {
  constexpr std::int64_t steps = 400, directions = 250;  // 100,000 estimates
  constexpr double n = steps * directions, epsilon = 1e-3;
  const SmallNetwork network;
  at::Tensor weights = at::randn({1, SmallNetwork::kParameters}, at::kDouble) * 0.3;
  at::Tensor leaf = weights.clone().set_requires_grad(true);
  network.losses(leaf).sum().backward();
  const at::Tensor gradient = leaf.grad()[0];
  Directions run(SmallNetwork::kParameters, directions);
  at::Tensor sum = at::zeros_like(gradient);
  at::Tensor products =
      at::zeros({SmallNetwork::kParameters, SmallNetwork::kParameters}, at::kDouble);
  for (std::int64_t step = 0; step < steps; ++step) {
    const at::Tensor z = run.next_step();
    const at::Tensor slope =
        (network.losses(weights + epsilon * z) - network.losses(weights - epsilon * z)) /
        (2 * epsilon);
    const at::Tensor estimates = slope.unsqueeze(1) * z - gradient;
    sum += estimates.sum(0);
    products += estimates.t().mm(estimates);
  }
  const at::Tensor mean = sum / n;
  const at::Tensor covariance = products / n - mean.outer(mean);
  const double statistic =
      n * mean.dot(at::linalg_solve(covariance, mean)).item<double>();  // chi square of 210
  EXPECT_LT(statistic, 295) << "p < 1e-4";
  const double growth = (covariance.trace() + gradient.dot(gradient)).item<double>() /
                        gradient.dot(gradient).item<double>();
  EXPECT_NEAR(growth / (SmallNetwork::kParameters + 2), 1, 0.03)
      << "E|g z|^2 = (d + 2) |gradient|^2";
}

TEST(ZerothOrder, PutsWeightsOnAGridFinerThanTheirOwnRounding) {
  const at::Tensor weights = at::randn({5000}) * 0.02, zeros = at::zeros({64});
  weights[0] = -1e-12;
  const at::Tensor before = weights.clone();
  ZerothOrder zeroth({.epsilon = 1e-3}, {{"w", weights, 0}, {"zeros", zeros, 0}});
  zeroth.follow(kByLosses);
  const double largest = before.abs().max().item<double>();
  EXPECT_LE((weights - before).abs().max().item<double>(), largest * 0x1p-22);
  EXPECT_FALSE(weights[0].signbit().item<bool>()) << "moved there and back it would be +0";
  const at::Tensor initial = weights.clone();
  zeroth.follow({{}});
  zeroth.follow(kByLosses);
  EXPECT_TRUE(at::equal(weights, initial));
}

TEST(ZerothOrder, ComesBackToTheLastBitAfterManySteps) {
  const at::Tensor weights = at::randn({3, 40}).t() * 0.1, bias = at::zeros({7});
  ZerothOrder zeroth({.epsilon = 5e-3, .directions = 3}, {{"w", weights, 0}, {"b", bias, 0}});
  zeroth.follow(kByLosses);
  const at::Tensor before = weights.clone(), bias_before = bias.clone();
  for (std::int64_t step = 0; step < 2000; ++step) {
    for (std::int64_t evaluation = 0; evaluation < 6; ++evaluation) zeroth.go_to(evaluation);
    EXPECT_FALSE(at::equal(weights, before));
    zeroth.abandon_step(/*moved=*/true);
    zeroth.redo({.step = step, .gradients = {0, 0, 0}});
  }
  EXPECT_TRUE(at::equal(weights, before));
  EXPECT_TRUE(at::equal(bias, bias_before));
}

TEST(ZerothOrder, RefusesWhatItCannotDo) {
  const at::Tensor weights = at::randn({4});
  EXPECT_THROW(ZerothOrder({.epsilon = 0}, {{"w", weights, 0}}), UsageError);
  EXPECT_THROW(ZerothOrder({.directions = 0}, {{"w", weights, 0}}), UsageError);
  EXPECT_THROW(ZerothOrder({.momentum = 1}, {{"w", weights, 0}}), UsageError);
  const at::Tensor twisted = at::randn({2, 3, 4}).transpose(0, 2);
  EXPECT_THROW(ZerothOrder({}, {{"w", twisted, 0}}), UsageError);
  ZerothOrder zeroth({}, {{"w", weights, 0}});
  zeroth.follow(kByLosses);
  EXPECT_THROW(zeroth.redo({.step = 3, .gradients = {1}}), UsageError);
  EXPECT_THROW(zeroth.redo({.step = 0, .gradients = {1, 2}}), UsageError);
}

class EveryElasticOptimizer : public testing::TestWithParam<StateFormat> {};

TEST_P(EveryElasticOptimizer, KeepsTheStateOfLayersThatStay) {
  std::vector<ParameterRef> parameters;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    parameters.push_back({"p" + std::to_string(layer), at::randn({5}), layer});
  ElasticOptimizer optimizer({.state = GetParam()}, parameters);
  const LayerPlan backprop, losses{.gradient = GradientSource::ZerothOrder};
  const auto follow = [&](const std::vector<LayerPlan>& layers) {
    return optimizer.follow(layers, [] { return std::int64_t{7}; });
  };
  EXPECT_EQ(optimizer.state_bytes(), 0);
  EXPECT_TRUE(follow({losses, losses, backprop}));
  StateMap saved;
  saved.emplace("momentum/p2", number_state<float>("momentum/p2", {1, 2, 3, 4, 5}));
  optimizer.restore(saved);
  EXPECT_TRUE(follow({losses, backprop, backprop}));
  EXPECT_FALSE(follow({losses, backprop, backprop}));
  StateMap states;
  for (const StateView& view : optimizer.state()) states.emplace(view.name, view);
  EXPECT_EQ(numbers_from<float>(states, "momentum/p1"), std::vector<float>(5, 0));
  EXPECT_EQ(numbers_from<float>(states, "momentum/p2"), (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(follow({losses, losses, losses}));
  EXPECT_TRUE(optimizer.state().empty());
}

class ElasticSteps {
 public:
  explicit ElasticSteps(const std::vector<at::Tensor>& weights) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      parameters_.push_back({"p" + std::to_string(i), weights[i], static_cast<std::int64_t>(i)});
    const auto layers = static_cast<std::int64_t>(weights.size());
    gradients_.emplace(GradientControlOptions(), parameters_, layers);
    optimizer_.emplace(OptimizerOptions{.kind = OptimizerKind::AdamW}, parameters_);
    rates_ = at::full({layers}, 0.01);
  }

  void follow(const std::vector<LayerPlan>& layers) {
    optimizer_->follow(layers, [&] { return gradients_->applied_steps(); });
  }
  void step() {
    gradients_->measure();
    optimizer_->update(gradients_->update_inputs(rates_));
    gradients_->finish_step();
  }
  StateMap state() const {
    StateMap all;
    for (const Stateful* part : std::initializer_list<const Stateful*>{&*gradients_, &*optimizer_})
      for (const StateView& view : part->state()) all.emplace(view.name, view);
    return all;
  }
  void restore(const StateMap& saved) {
    gradients_->restore(saved);
    optimizer_->restore(saved);
  }

 private:
  std::vector<ParameterRef> parameters_;
  std::optional<GradientControl> gradients_;
  std::optional<ElasticOptimizer> optimizer_;
  at::Tensor rates_;
};

TEST(ElasticOptimizer, CountsTheStepsOfALayerFromItsStart) {
  const LayerPlan backprop, losses{.gradient = GradientSource::ZerothOrder};
  at::Tensor late = at::randn({40}), early = at::randn({40});
  ElasticSteps steps({late, early});
  steps.follow({losses, backprop});
  for (int i = 0; i < 30; ++i) {
    early.mutable_grad() = at::randn({40});
    steps.step();
  }
  at::Tensor fresh = late.clone();
  ElasticSteps from_start({fresh});
  from_start.follow({backprop});
  steps.follow({backprop, backprop});
  at::Tensor late_again = at::zeros({40}), early_again = at::zeros({40});
  ElasticSteps resumed({late_again, early_again});
  for (int i = 0; i < 6; ++i) {
    if (i == 3) {
      resumed.follow({backprop, backprop});
      resumed.restore(steps.state());
      late_again.copy_(late);
      early_again.copy_(early);
    }
    const at::Tensor of_late = at::randn({40}), of_early = at::randn({40});
    late.mutable_grad() = fresh.mutable_grad() = late_again.mutable_grad() = of_late;
    early.mutable_grad() = early_again.mutable_grad() = of_early;
    steps.step();
    from_start.step();
    resumed.step();
  }
  EXPECT_TRUE(late.equal(fresh));
  EXPECT_TRUE(late_again.equal(late));
  EXPECT_TRUE(early_again.equal(early));
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryElasticOptimizer,
                         testing::Values(StateFormat::Fp32, StateFormat::Fp8),
                         [](const auto& which) {
                           return std::string(which.param == StateFormat::Fp32 ? "fp32" : "fp8");
                         });

}  // namespace
}  // namespace triaccel
