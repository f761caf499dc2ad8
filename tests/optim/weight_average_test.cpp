#include "triaccel/optim/weight_average.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/optim/optimizer_case.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

struct AverageCase {
  at::Tensor weight = at::zeros({3, 2}).requires_grad_();
  std::vector<ParameterRef> parameters = {{"w", weight, 0}};
  GradientControl control = GradientControl({}, parameters, 1);

  void move_to(double value) {
    const at::NoGradGuard no_gradient;
    weight.fill_(value);
  }
};

bool filled_with(const at::Tensor& tensor, double value) {
  return at::equal(tensor, at::full_like(tensor, value));
}

TEST(WeightAverage, StartsFromTheWeightsAndFollowsThem) {
  AverageCase test;
  test.move_to(4);
  WeightAverage average({.decay = 0.75, .warm_up = false}, test.parameters);
  test.move_to(8);
  average.update(test.control.step_control());
  const ScopedAverage averaged(average);
  EXPECT_TRUE(filled_with(test.weight, 5));
}

TEST(ScopedAverage, PutsTheWeightsBackAlsoWhenUnwinding) {
  AverageCase test;
  WeightAverage average({}, test.parameters);
  test.move_to(8);
  const void* address = test.weight.data_ptr();
  try {
    const ScopedAverage averaged(average);
    EXPECT_TRUE(filled_with(test.weight, 0));
    throw std::runtime_error("evaluation failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(filled_with(test.weight, 8));
  EXPECT_EQ(test.weight.data_ptr(), address);
}

TEST(WeightAverage, StaysWhereItIsWhenTheStepIsSkipped) {
  AverageCase test;
  WeightAverage average({.decay = 0.5, .warm_up = false}, test.parameters);
  test.move_to(8);
  test.weight.mutable_grad() = at::full({3, 2}, std::numeric_limits<float>::infinity());
  test.control.measure();
  average.update(test.control.step_control());
  const ScopedAverage averaged(average);
  EXPECT_TRUE(filled_with(test.weight, 0));
}

TEST(WeightAverage, RestoresItsState) {
  AverageCase test;
  test.move_to(2);
  WeightAverage average({}, test.parameters);
  const StateMap state = saved_state(average);
  EXPECT_EQ(state.begin()->first, "average/w");
  test.move_to(3);
  WeightAverage other({}, test.parameters);
  other.restore(state);
  const ScopedAverage averaged(other);
  EXPECT_TRUE(filled_with(test.weight, 2));
}

TEST(WeightAverage, RefusesADecayOfOne) {
  AverageCase test;
  EXPECT_THROW(WeightAverage({.decay = 1}, test.parameters), UsageError);
}

}  // namespace
}  // namespace triaccel
