#include "triaccel/kernels/update/apollo_mini.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "tests/kernels/update/matrix_bunch.h"

namespace triaccel::kernels {
namespace {

const std::vector<float> kApolloRates = {0.1f, 0.01f, 0.5f};

MatrixBunch apollo_bunch() {
  return MatrixBunch(awkward_shapes(false), apollo_mini_state_size, apollo_mini_workspace_size);
}

/// The formulas of the paper, one after the other, for one matrix.
struct ApolloReference {
  std::vector<double> m, v;
  double norm = 0;       // of the last update, without the learning rate
  bool limited = false;  // by the growth of that norm

  at::Tensor step(const TensorEntry& tensor, const at::Tensor& parameter,
                  const at::Tensor& gradient, int t, const ApolloMiniStep& options,
                  double learning_rate) {
    const auto p = MatrixBunch::table(parameter, tensor.rows);
    const auto g = MatrixBunch::table(gradient, tensor.rows);
    const std::size_t rows = p.size(), columns = p[0].size();
    const bool tall = rows >= columns;
    std::vector<double> projected(tall ? rows : columns);
    double squares = 0;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) {
        const double z = projection_element(tensor.seed, (t - 1) / options.projection_interval,
                                            static_cast<std::int64_t>(tall ? j : i));
        projected[tall ? i : j] += z * g[i][j];
        squares += g[i][j] * g[i][j];
      }
    if (m.empty()) m.assign(projected.size(), 0), v = m;
    double before = 0, after = 0;
    for (std::size_t k = 0; k < projected.size(); ++k) {
      m[k] = 0.9 * m[k] + 0.1 * projected[k];
      v[k] = 0.999 * v[k] + 0.001 * projected[k] * projected[k];
      const double update =
          m[k] / (1 - std::pow(0.9, t)) / (std::sqrt(v[k] / (1 - std::pow(0.999, t))) + 1e-8);
      before += projected[k] * projected[k];
      after += update * update;
    }
    double scale = std::sqrt(128.0) * std::sqrt(after) / std::sqrt(before);
    const double wanted = scale * std::sqrt(squares);
    if (norm > 0 && wanted > 1.01 * norm) scale *= 1.01 * norm / wanted, limited = true;
    norm = scale * std::sqrt(squares);
    const at::Tensor next = at::empty({static_cast<std::int64_t>(rows * columns)}, at::kDouble);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        next.mutable_data_ptr<double>()[i * columns + j] =
            p[i][j] * (1 - learning_rate * double{options.adamw.weight_decay}) -
            learning_rate * scale * g[i][j];
    return next;
  }
};

TEST(ApolloMiniUpdate, FollowsThePaperStepByStep) {
  at::manual_seed(5);
  const ApolloMiniStep step = {.adamw = {.weight_decay = 0.1f}, .projection_interval = 2};
  MatrixBunch bunch = apollo_bunch();
  std::vector<ApolloReference> references(bunch.rows.size());
  for (int t = 1; t <= 5; ++t) {
    bunch.draw_gradients(t);
    std::vector<at::Tensor> expected;
    for (std::size_t i = 0; i < references.size(); ++i)
      expected.push_back(references[i].step(bunch.entries()[i], bunch.tensors.parameters[i],
                                            bunch.tensors.gradients[i] * 0.25, t, step,
                                            kApolloRates[i % 3]));
    const StepControl control = {.gradient_multiplier = 0.25f, .applied_steps = t};
    cpu::apollo_mini_update(bunch.entries(),
                            {.learning_rates = kApolloRates.data(), .control = &control}, step);
    for (std::size_t i = 0; i < references.size(); ++i)
      EXPECT_LE(largest_difference({bunch.tensors.parameters[i]}, {expected[i]}), 2e-5)
          << "step " << t << ", tensor " << i << " of " << bunch.rows[i] << " rows";
  }
  EXPECT_TRUE(std::ranges::any_of(references, &ApolloReference::limited));
}

TEST(ApolloMiniUpdate, LetsAnUpdateGrowByOnePercentAtMost) {
  MatrixBunch bunch({{40, 30}}, apollo_mini_state_size, apollo_mini_workspace_size);
  const auto change = [&](int t) {
    const at::Tensor before = bunch.tensors.parameters[0].clone();
    const StepControl control = {.applied_steps = t};
    cpu::apollo_mini_update(bunch.entries(),
                            {.learning_rates = kApolloRates.data(), .control = &control},
                            {.adamw = {.beta1 = 0, .beta2 = 0.5}});
    return (bunch.tensors.parameters[0] - before).norm().item<double>();
  };
  const double first = change(1);
  bunch.tensors.gradients[0].mul_(0.01);
  EXPECT_LT(change(2), first) << "an update may shrink at once";
  bunch.tensors.gradients[0].mul_(1000);
  const double second = bunch.tensors.states1[0][80].item<double>();
  EXPECT_NEAR(change(3), 0.1 * 1.01 * second, 1e-5 * second);
  EXPECT_NEAR(bunch.tensors.states1[0][80].item<double>(), 1.01 * second, 1e-5 * second);
}

TEST(ApolloMiniUpdate, KeepsTwoMomentsOfTheLongerSideAndANorm) {
  EXPECT_EQ(apollo_mini_state_size({.rows = 300, .columns = 700}), 1401);
  EXPECT_EQ(apollo_mini_state_size({.rows = 700, .columns = 300}), 1401);
  EXPECT_LE(apollo_mini_workspace_size({.rows = 4096, .columns = 4096}), 4096 * 4096 * 0.008);
}

TEST(ApolloMiniUpdate, ProjectsAlongStandardNormalNumbers) {
  const std::int64_t count = 40000;
  at::Tensor drawn = at::empty({count}, at::kDouble);
  for (std::int64_t i = 0; i < count; ++i)
    drawn.mutable_data_ptr<double>()[i] = projection_element(3, 7, i);
  EXPECT_NEAR(drawn.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(drawn.pow(2).mean().item<double>(), 1, 0.03);
  EXPECT_NEAR(drawn.pow(4).mean().item<double>(), 3, 0.2);
  EXPECT_NE(projection_element(3, 7, 0), projection_element(3, 8, 0));
  EXPECT_NE(projection_element(3, 7, 0), projection_element(4, 7, 0));
}

TEST(ApolloMiniUpdate, ChangesTheProjectionAfterItsInterval) {
  EXPECT_EQ(projection_number(1, 200), 0);
  EXPECT_EQ(projection_number(200, 200), 0);
  EXPECT_EQ(projection_number(201, 200), 1);
}

TEST(ApolloMiniUpdate, MovesNothingWithoutAnyGradient) {
  MatrixBunch bunch = apollo_bunch();
  const MatrixBunch before = bunch.on(at::kCPU);
  for (const at::Tensor& gradient : bunch.tensors.gradients) gradient.zero_();
  const StepControl control = {.applied_steps = 1};
  cpu::apollo_mini_update(bunch.entries(),
                          {.learning_rates = kApolloRates.data(), .control = &control}, {});
  EXPECT_TRUE(same_bits(bunch.tensors.parameters, before.tensors.parameters));
}

TEST(ApolloMiniUpdate, ReadsGradientsOfEveryTypeAndTakesTheScaleOutOfF16) {
  const std::vector<LayerScale> scales = {{.scale = 1024}, {.scale = 4}, {}};
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const MatrixBunch expected = apollo_bunch();
    MatrixBunch found = expected.on(at::kCPU);
    for (std::size_t i = 0; i < found.rows.size(); ++i) {
      const at::Tensor rounded = expected.tensors.gradients[i].to(type);  // exact again as F32
      expected.tensors.gradients[i].copy_(rounded);
      found.tensors.gradients[i] = type == at::kHalf ? rounded * scales[i % 3].scale : rounded;
    }
    const StepControl control = {.gradient_multiplier = 0.3f, .applied_steps = 1};
    cpu::apollo_mini_update(expected.entries(),
                            {.learning_rates = kApolloRates.data(), .control = &control}, {});
    cpu::apollo_mini_update(
        found.entries(),
        {.learning_rates = kApolloRates.data(), .control = &control, .scales = scales.data()}, {});
    EXPECT_TRUE(found.same_weights_and_states(expected)) << c10::toString(type);
  }
}

TEST(ApolloMiniUpdate, GivesTheSameBitsWithAnyNumberOfThreads) {
  const MatrixBunch one = apollo_bunch(), three = one.on(at::kCPU);
  const StepControl control = {.applied_steps = 1};
  const UpdateInputs inputs = {.learning_rates = kApolloRates.data(), .control = &control};
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  cpu::apollo_mini_update(one.entries(), inputs, {});
  omp_set_num_threads(3);
  cpu::apollo_mini_update(three.entries(), inputs, {});
  omp_set_num_threads(threads);
  EXPECT_TRUE(one.same_weights_and_states(three));
}

TEST(ApolloMiniUpdate, TakesTheNextStepUnderTheGateOfALayer) {
  const MatrixBunch bunch = apollo_bunch();
  const MatrixBunch before = bunch.on(at::kCPU), expected = bunch.on(at::kCPU);
  const std::vector<LayerMoments> moments = {{.nonfinite = 3}, {}, {}};
  const StepControl last = {.gradient_multiplier = 7, .loss_scale = 8, .applied_steps = 4};
  const StepControl applied = {.gradient_multiplier = 0.125f, .applied_steps = 5};
  cpu::apollo_mini_update(bunch.entries(),
                          {.learning_rates = kApolloRates.data(),
                           .control = &last,
                           .moments = moments.data(),
                           .gate = UpdateGate::Layer},
                          {});
  cpu::apollo_mini_update(expected.entries(),
                          {.learning_rates = kApolloRates.data(), .control = &applied}, {});
  for (std::size_t i = 0; i < bunch.rows.size(); ++i) {
    const TensorBunch& wanted = (i % 3 == 0 ? before : expected).tensors;
    EXPECT_TRUE(same_bits(bunch.tensors.parameters[i], wanted.parameters[i])) << "tensor " << i;
    EXPECT_TRUE(same_bits(bunch.tensors.states1[i], wanted.states1[i])) << "tensor " << i;
  }
}

TEST(ApolloMiniUpdate, ChangesNoBitOfASkippedStep) {
  const MatrixBunch bunch = apollo_bunch();
  const MatrixBunch before = bunch.on(at::kCPU);
  const StepControl control = {.gradient_multiplier = 0, .skip = 1, .applied_steps = 4};
  cpu::apollo_mini_update(bunch.entries(),
                          {.learning_rates = kApolloRates.data(), .control = &control},
                          {.adamw = {.weight_decay = 0.1f}});
  EXPECT_TRUE(bunch.same_weights_and_states(before));
}

}  // namespace
}  // namespace triaccel::kernels
