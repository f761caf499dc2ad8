#include "triaccel/kernels/update/sgd.h"

#include <gtest/gtest.h>

#include "tests/kernels/common/tensor_bunch.h"

namespace triaccel::kernels {
namespace {

const std::vector<float> kSgdRates = {0.5f, 0.25f, 0.0f};

TEST(SgdUpdate, FollowsTheFormulaOnAHandComputedCase) {
  float p = 2, v = 4, g = 8;
  const std::vector<TensorEntry> tensors = {
      {.parameter = &p, .gradient = &g, .state1 = &v, .count = 1}};
  const StepControl control = {.gradient_multiplier = 0.25f};
  cpu::sgd_update(tensors, {.learning_rates = kSgdRates.data(), .control = &control},
                  {.momentum = 0.5f, .weight_decay = 0.125f});
  EXPECT_EQ(v, 4.25f);    // 0.5 * 4 + (0.25 * 8 + 0.125 * 2)
  EXPECT_EQ(p, -0.125f);  // 2 - 0.5 * 4.25
}

TEST(SgdUpdate, LooksAheadWithNesterov) {
  float p = 2, v = 4, g = 8;
  const std::vector<TensorEntry> tensors = {
      {.parameter = &p, .gradient = &g, .state1 = &v, .count = 1}};
  const StepControl control = {.gradient_multiplier = 0.25f};
  cpu::sgd_update(tensors, {.learning_rates = kSgdRates.data(), .control = &control},
                  {.momentum = 0.5f, .nesterov = true});
  EXPECT_EQ(v, 4.0f);  // 0.5 * 4 + 0.25 * 8
  EXPECT_EQ(p, 0.0f);  // 2 - 0.5 * (2 + 0.5 * 4)
}

TEST(SgdUpdate, UsesTheRateOfEachTensorsLayer) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU);
  const StepControl control;
  cpu::sgd_update(bunch.entries(), {.learning_rates = kSgdRates.data(), .control = &control},
                  {.momentum = 0});
  for (std::size_t i = 0; i < bunch.parameters.size(); ++i)
    EXPECT_TRUE(at::allclose(bunch.parameters[i],
                             before.parameters[i] - kSgdRates[i % 3] * before.gradients[i], 1e-6,
                             1e-6))
        << "tensor " << i;
}

TEST(SgdUpdate, ReadsGradientsOfEveryTypeAndTakesTheScaleOutOfF16) {
  const std::vector<LayerScale> scales = {{.scale = 1024}, {.scale = 4}, {}};
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const TensorBunch expected(awkward_sizes());
    TensorBunch found = expected.on(at::kCPU);
    for (std::size_t i = 0; i < found.gradients.size(); ++i) {
      const at::Tensor rounded = expected.gradients[i].to(type);  // exact again as F32
      expected.gradients[i].copy_(rounded);
      found.gradients[i] = type == at::kHalf ? rounded * scales[i % 3].scale : rounded;
    }
    const StepControl control = {.gradient_multiplier = 0.3f};
    cpu::sgd_update(expected.entries(), {.learning_rates = kSgdRates.data(), .control = &control},
                    {});
    cpu::sgd_update(
        found.entries(),
        {.learning_rates = kSgdRates.data(), .control = &control, .scales = scales.data()}, {});
    EXPECT_TRUE(same_bits(found.parameters, expected.parameters)) << c10::toString(type);
    EXPECT_TRUE(same_bits(found.states1, expected.states1)) << c10::toString(type);
  }
}

TEST(SgdUpdate, LeavesALayerThatIsNotFiniteAloneUnderItsOwnGate) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU), expected = bunch.on(at::kCPU);
  const std::vector<LayerMoments> moments = {{.count = 5}, {.count = 5, .nonfinite = 1}, {}};
  const StepControl last = {.gradient_multiplier = 0, .loss_scale = 4, .skip = 1};
  const StepControl applied = {.gradient_multiplier = 0.25f};
  cpu::sgd_update(bunch.entries(),
                  {.learning_rates = kSgdRates.data(),
                   .control = &last,
                   .moments = moments.data(),
                   .gate = UpdateGate::Layer},
                  {});
  cpu::sgd_update(expected.entries(), {.learning_rates = kSgdRates.data(), .control = &applied},
                  {});
  for (std::size_t i = 0; i < bunch.parameters.size(); ++i) {
    const TensorBunch& wanted = i % 3 == 1 ? before : expected;
    EXPECT_TRUE(same_bits(bunch.parameters[i], wanted.parameters[i])) << "tensor " << i;
    EXPECT_TRUE(same_bits(bunch.states1[i], wanted.states1[i])) << "tensor " << i;
  }
}

TEST(SgdUpdate, ChangesNoBitOfASkippedStep) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU);
  const StepControl control = {.gradient_multiplier = 0, .skip = 1};
  cpu::sgd_update(bunch.entries(), {.learning_rates = kSgdRates.data(), .control = &control},
                  {.weight_decay = 0.1f});
  EXPECT_TRUE(same_bits(bunch.parameters, before.parameters));
  EXPECT_TRUE(same_bits(bunch.states1, before.states1));
}

}  // namespace
}  // namespace triaccel::kernels
