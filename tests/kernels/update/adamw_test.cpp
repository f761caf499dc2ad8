#include "triaccel/kernels/update/adamw.h"

#include <gtest/gtest.h>

#include "tests/kernels/common/tensor_bunch.h"

namespace triaccel::kernels {
namespace {

TEST(AdamWUpdate, FollowsTheFormulaOnAHandComputedCase) {
  float p = 1, m = 0, v = 0, g = 4;
  const float rate = 0.5f;
  const std::vector<TensorEntry> tensors = {
      {.parameter = &p, .gradient = &g, .state1 = &m, .state2 = &v, .count = 1}};
  const StepControl control = {.gradient_multiplier = 0.5f, .applied_steps = 1};
  cpu::adamw_update(tensors, {.learning_rates = &rate, .control = &control},
                    {.beta1 = 0.5, .beta2 = 0.75, .epsilon = 0, .weight_decay = 0.25f});
  EXPECT_EQ(m, 1.0f);    // 0.5 * 2
  EXPECT_EQ(v, 1.0f);    // 0.25 * 2^2
  EXPECT_EQ(p, 0.375f);  // 1 * (1 - 0.5 * 0.25) - 0.5 * (1 / 0.5) / sqrt(1 / 0.25)
}

TEST(AdamWUpdate, ReadsGradientsOfEveryTypeAndTakesTheScaleOutOfF16) {
  const std::vector<LayerScale> scales = {{.scale = 1024}, {.scale = 4}, {}};
  const std::vector<float> rates(3, 0.1f);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const TensorBunch expected(awkward_sizes());
    TensorBunch found = expected.on(at::kCPU);
    for (std::size_t i = 0; i < found.gradients.size(); ++i) {
      const at::Tensor rounded = expected.gradients[i].to(type);  // exact again as F32
      expected.gradients[i].copy_(rounded);
      found.gradients[i] = type == at::kHalf ? rounded * scales[i % 3].scale : rounded;
    }
    const StepControl control = {.gradient_multiplier = 0.3f, .applied_steps = 2};
    cpu::adamw_update(expected.entries(), {.learning_rates = rates.data(), .control = &control},
                      {});
    cpu::adamw_update(
        found.entries(),
        {.learning_rates = rates.data(), .control = &control, .scales = scales.data()}, {});
    EXPECT_TRUE(same_bits(found.parameters, expected.parameters)) << c10::toString(type);
    EXPECT_TRUE(same_bits(found.states2, expected.states2)) << c10::toString(type);
  }
}

TEST(AdamWUpdate, TakesTheNextStepUnderTheGateOfALayer) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU), expected = bunch.on(at::kCPU);
  const std::vector<float> rates(3, 0.1f);
  const std::vector<LayerMoments> moments = {{.nonfinite = 3}, {}, {}};
  const StepControl last = {.gradient_multiplier = 7, .loss_scale = 8, .applied_steps = 4};
  const StepControl applied = {.gradient_multiplier = 0.125f, .applied_steps = 5};
  cpu::adamw_update(bunch.entries(),
                    {.learning_rates = rates.data(),
                     .control = &last,
                     .moments = moments.data(),
                     .gate = UpdateGate::Layer},
                    {});
  cpu::adamw_update(expected.entries(), {.learning_rates = rates.data(), .control = &applied}, {});
  for (std::size_t i = 0; i < bunch.parameters.size(); ++i) {
    const TensorBunch& wanted = i % 3 == 0 ? before : expected;
    EXPECT_TRUE(same_bits(bunch.parameters[i], wanted.parameters[i])) << "tensor " << i;
    EXPECT_TRUE(same_bits(bunch.states2[i], wanted.states2[i])) << "tensor " << i;
  }
}

TEST(AdamWUpdate, ChangesNoBitOfASkippedStep) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU);
  const std::vector<float> rates(3, 0.1f);
  const StepControl control = {.gradient_multiplier = 0, .skip = 1, .applied_steps = 4};
  cpu::adamw_update(bunch.entries(), {.learning_rates = rates.data(), .control = &control},
                    {.weight_decay = 0.1f});
  EXPECT_TRUE(same_bits(bunch.parameters, before.parameters));
  EXPECT_TRUE(same_bits(bunch.states1, before.states1));
  EXPECT_TRUE(same_bits(bunch.states2, before.states2));
}

}  // namespace
}  // namespace triaccel::kernels
