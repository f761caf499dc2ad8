#include "triaccel/kernels/update/adalomo.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "tests/kernels/update/matrix_bunch.h"

namespace triaccel::kernels {
namespace {

const std::vector<float> kAdaLomoRates = {0.1f, 0.01f, 0.5f};

MatrixBunch adalomo_bunch() {
  return MatrixBunch(awkward_shapes(true), adalomo_state_size, adalomo_workspace_size);
}

/// The formulas of the paper, one after the other, for one tensor.
struct AdaLomoReference {
  std::vector<double> row, column;
  bool limited = false;  // RMS(u) was above 1

  at::Tensor step(const at::Tensor& parameter, const at::Tensor& gradient, std::int64_t rows, int t,
                  double learning_rate, double weight_decay) {
    auto p = MatrixBunch::table(parameter, rows);
    const auto g = MatrixBunch::table(gradient, rows);
    const std::size_t n = p.size(), m = p[0].size();
    const double b = 1 - std::pow(t, -0.8);
    if (row.empty()) row.assign(n, 0), column.assign(m, 0);
    std::vector<double> row_mean(n), column_mean(m);
    double weights = 0, updates = 0, mean_row = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < m; ++j) {
        row_mean[i] += (g[i][j] * g[i][j] + 1e-30) / static_cast<double>(m);
        column_mean[j] += (g[i][j] * g[i][j] + 1e-30) / static_cast<double>(n);
        weights += p[i][j] * p[i][j];
      }
    for (std::size_t i = 0; i < n; ++i) row[i] = b * row[i] + (1 - b) * row_mean[i];
    for (std::size_t j = 0; j < m; ++j) column[j] = b * column[j] + (1 - b) * column_mean[j];
    for (std::size_t i = 0; i < n; ++i) mean_row += row[i] / static_cast<double>(n);
    auto u = g;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < m; ++j) {
        u[i][j] /= std::sqrt(n == 1 ? column[j] : row[i] * column[j] / mean_row);
        updates += u[i][j] * u[i][j];
      }
    const double rms = std::sqrt(updates / static_cast<double>(n * m));
    limited |= rms > 1.01;
    const double factor =
        std::max(1e-3, std::sqrt(weights / static_cast<double>(n * m))) / std::max(1.0, rms);
    const at::Tensor next = at::empty({static_cast<std::int64_t>(n * m)}, at::kDouble);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < m; ++j)
        next.mutable_data_ptr<double>()[i * m + j] =
            p[i][j] * (1 - learning_rate * weight_decay) - learning_rate * factor * u[i][j];
    return next;
  }
};

TEST(AdaLomoUpdate, FollowsTheFormulaOnAHandComputedCase) {
  float p = 2, moment = 0, g = 8;
  const float rate = 0.5f;
  std::vector<float> workspace(
      static_cast<std::size_t>(adalomo_workspace_size({.rows = 1, .columns = 1})));
  const std::vector<TensorEntry> tensors = {
      {.parameter = &p, .gradient = &g, .state1 = &moment, .state2 = workspace.data(), .count = 1}};
  const StepControl control = {.gradient_multiplier = 0.5f, .applied_steps = 1};
  cpu::adalomo_update(tensors, {.learning_rates = &rate, .control = &control},
                      {.weight_decay = 0.25f});
  EXPECT_EQ(moment, 16.0f);  // (0.5 * 8)^2
  EXPECT_EQ(p, 0.75f);       // 2 * (1 - 0.5 * 0.25) - 0.5 * 1 * RMS(2)
}

TEST(AdaLomoUpdate, FollowsThePaperStepByStep) {
  at::manual_seed(5);
  MatrixBunch bunch = adalomo_bunch();
  std::vector<AdaLomoReference> references(bunch.rows.size());
  bool limited = false;
  for (int t = 1; t <= 4; ++t) {
    bunch.draw_gradients(std::pow(3.0, t));  // grows, so that RMS(u) is above 1
    std::vector<at::Tensor> expected;
    for (std::size_t i = 0; i < references.size(); ++i) {
      const at::Tensor& parameter = bunch.tensors.parameters[i];
      expected.push_back(parameter.numel() == 0
                             ? parameter
                             : references[i].step(parameter, bunch.tensors.gradients[i] * 0.25,
                                                  bunch.rows[i], t, kAdaLomoRates[i % 3], 0.1));
      limited |= references[i].limited;
    }
    const StepControl control = {.gradient_multiplier = 0.25f, .applied_steps = t};
    cpu::adalomo_update(bunch.entries(),
                        {.learning_rates = kAdaLomoRates.data(), .control = &control},
                        {.weight_decay = 0.1f});
    EXPECT_LE(largest_difference(bunch.tensors.parameters, expected), 2e-6) << "step " << t;
  }
  EXPECT_TRUE(limited) << "so that both branches of the normalisation were taken";
}

TEST(AdaLomoUpdate, KeepsRowsAndColumnsOfAMatrixAndAllOfAVector) {
  EXPECT_EQ(adalomo_state_size({.rows = 300, .columns = 700}), 1000);
  EXPECT_EQ(adalomo_state_size({.rows = 1, .columns = 700}), 700);
  EXPECT_LE(adalomo_workspace_size({.rows = 4096, .columns = 4096}), 4096 * 4096 * 0.012);
}

TEST(AdaLomoUpdate, MovesWeightsOfZero) {
  MatrixBunch bunch({{4, 5}}, adalomo_state_size, adalomo_workspace_size);
  bunch.tensors.parameters[0].zero_();
  const StepControl control = {.applied_steps = 1};
  cpu::adalomo_update(bunch.entries(),
                      {.learning_rates = kAdaLomoRates.data(), .control = &control}, {});
  const double rms = bunch.tensors.parameters[0].pow(2).mean().sqrt().item<double>();
  EXPECT_GT(rms, 0.5e-4);  // lr * weight_epsilon * RMS(u), which is at most 1
  EXPECT_LE(rms, 1.001e-4);
}

TEST(AdaLomoUpdate, StaysFiniteWithoutAnyGradient) {
  MatrixBunch bunch = adalomo_bunch();
  const MatrixBunch before = bunch.on(at::kCPU);
  for (const at::Tensor& gradient : bunch.tensors.gradients) gradient.zero_();
  const StepControl control = {.applied_steps = 1};
  cpu::adalomo_update(bunch.entries(),
                      {.learning_rates = kAdaLomoRates.data(), .control = &control}, {});
  EXPECT_TRUE(same_bits(bunch.tensors.parameters, before.tensors.parameters));
}

TEST(AdaLomoUpdate, ReadsGradientsOfEveryTypeAndTakesTheScaleOutOfF16) {
  const std::vector<LayerScale> scales = {{.scale = 1024}, {.scale = 4}, {}};
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const MatrixBunch expected = adalomo_bunch();
    MatrixBunch found = expected.on(at::kCPU);
    for (std::size_t i = 0; i < found.rows.size(); ++i) {
      const at::Tensor rounded = expected.tensors.gradients[i].to(type);  // exact again as F32
      expected.tensors.gradients[i].copy_(rounded);
      found.tensors.gradients[i] = type == at::kHalf ? rounded * scales[i % 3].scale : rounded;
    }
    const StepControl control = {.gradient_multiplier = 0.3f, .applied_steps = 1};
    cpu::adalomo_update(expected.entries(),
                        {.learning_rates = kAdaLomoRates.data(), .control = &control}, {});
    cpu::adalomo_update(
        found.entries(),
        {.learning_rates = kAdaLomoRates.data(), .control = &control, .scales = scales.data()}, {});
    EXPECT_TRUE(found.same_weights_and_states(expected)) << c10::toString(type);
  }
}

TEST(AdaLomoUpdate, GivesTheSameBitsWithAnyNumberOfThreads) {
  const MatrixBunch one = adalomo_bunch(), three = one.on(at::kCPU);
  const StepControl control = {.applied_steps = 1};
  const UpdateInputs inputs = {.learning_rates = kAdaLomoRates.data(), .control = &control};
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  cpu::adalomo_update(one.entries(), inputs, {});
  omp_set_num_threads(3);
  cpu::adalomo_update(three.entries(), inputs, {});
  omp_set_num_threads(threads);
  EXPECT_TRUE(one.same_weights_and_states(three));
}

TEST(AdaLomoUpdate, TakesTheNextStepUnderTheGateOfALayer) {
  const MatrixBunch bunch = adalomo_bunch();
  const MatrixBunch before = bunch.on(at::kCPU), expected = bunch.on(at::kCPU);
  const std::vector<LayerMoments> moments = {{.nonfinite = 3}, {}, {}};
  const StepControl last = {.gradient_multiplier = 7, .loss_scale = 8, .applied_steps = 4};
  const StepControl applied = {.gradient_multiplier = 0.125f, .applied_steps = 5};
  cpu::adalomo_update(bunch.entries(),
                      {.learning_rates = kAdaLomoRates.data(),
                       .control = &last,
                       .moments = moments.data(),
                       .gate = UpdateGate::Layer},
                      {});
  cpu::adalomo_update(expected.entries(),
                      {.learning_rates = kAdaLomoRates.data(), .control = &applied}, {});
  for (std::size_t i = 0; i < bunch.rows.size(); ++i) {
    const TensorBunch& wanted = (i % 3 == 0 ? before : expected).tensors;
    EXPECT_TRUE(same_bits(bunch.tensors.parameters[i], wanted.parameters[i])) << "tensor " << i;
    EXPECT_TRUE(same_bits(bunch.tensors.states1[i], wanted.states1[i])) << "tensor " << i;
  }
}

TEST(AdaLomoUpdate, ChangesNoBitOfASkippedStep) {
  const MatrixBunch bunch = adalomo_bunch();
  const MatrixBunch before = bunch.on(at::kCPU);
  const StepControl control = {.gradient_multiplier = 0, .skip = 1, .applied_steps = 4};
  cpu::adalomo_update(bunch.entries(),
                      {.learning_rates = kAdaLomoRates.data(), .control = &control},
                      {.weight_decay = 0.1f});
  EXPECT_TRUE(bunch.same_weights_and_states(before));
}

}  // namespace
}  // namespace triaccel::kernels
