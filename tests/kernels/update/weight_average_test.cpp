#include "triaccel/kernels/update/weight_average.h"

#include <gtest/gtest.h>

#include "tests/kernels/common/tensor_bunch.h"

namespace triaccel::kernels {
namespace {

TEST(WeightAverage, MovesByOneMinusDecay) {
  float p = 3, average = 1;
  const std::vector<TensorEntry> tensors = {{.parameter = &p, .state1 = &average, .count = 1}};
  const StepControl control;
  cpu::average_weights(tensors, &control, {.decay = 0.75f, .warm_up = false});
  EXPECT_EQ(average, 1.5f);
  EXPECT_EQ(p, 3.0f);
}

TEST(WeightAverage, WarmsUpByTheStepCount) {
  const StepControl control = {.applied_steps = 2};
  float p = 4, average = 0;
  const std::vector<TensorEntry> tensors = {{.parameter = &p, .state1 = &average, .count = 1}};
  cpu::average_weights(tensors, &control, {.decay = 0.999f, .warm_up = true});
  EXPECT_EQ(average, 3.0f);  // decay (1 + 2) / (10 + 2)
}

TEST(WeightAverage, ChangesNoBitOfASkippedStep) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU);
  const StepControl control = {.skip = 1};
  cpu::average_weights(bunch.entries(), &control, {});
  EXPECT_TRUE(same_bits(bunch.states1, before.states1));
}

TEST(SwapWeights, ExchangesEveryElement) {
  const TensorBunch bunch(awkward_sizes());
  const TensorBunch before = bunch.on(at::kCPU);
  cpu::swap_weights(bunch.entries());
  EXPECT_TRUE(same_bits(bunch.parameters, before.states1));
  EXPECT_TRUE(same_bits(bunch.states1, before.parameters));
}

}  // namespace
}  // namespace triaccel::kernels
