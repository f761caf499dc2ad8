#include "triaccel/ops/tensors/tensor_bundle.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"

namespace triaccel {
namespace {

at::Tensor parameter(std::vector<std::int64_t> shape) { return at::randn(shape).requires_grad_(); }

TEST(TensorBundle, DropsParametersWithoutAGradient) {
  const at::Tensor a = parameter({4}), b = parameter({5});
  b.mutable_grad() = at::ones({5});
  TensorBundle bundle("test", {{"a", a, 0}, {"b", b, 2}});
  bundle.bind_gradients();
  ASSERT_EQ(bundle.with_gradients().size(), 1u);
  EXPECT_EQ(bundle.with_gradients()[0].gradient, b.grad().data_ptr());
  EXPECT_EQ(bundle.with_gradients()[0].layer, 2);
  EXPECT_EQ(bundle.layer_count(), 3);
  b.mutable_grad() = at::Tensor();
  bundle.bind_gradients();
  EXPECT_TRUE(bundle.with_gradients().empty());
}

TEST(TensorBundle, TakesGradientsOfEveryFloatType) {
  const at::Tensor w = parameter({4});
  TensorBundle bundle("test", {{"w", w, 0}});
  const std::pair<at::ScalarType, kernels::FloatType> types[] = {
      {at::kFloat, kernels::FloatType::F32},
      {at::kBFloat16, kernels::FloatType::Bf16},
      {at::kHalf, kernels::FloatType::F16}};
  for (const auto& [torchs, ours] : types) {
    w.mutable_grad() = at::ones({4}, torchs);
    bundle.bind_gradients();
    EXPECT_EQ(bundle.with_gradients()[0].gradient_type, ours);
  }
  w.mutable_grad() = at::ones({4}, at::kDouble);
  EXPECT_THROW(bundle.bind_gradients(), UsageError);
}

TEST(TensorBundle, GivesStatesTheMemoryOrderOfTheirParameter) {
  const at::Tensor weight =
      at::randn({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  TensorBundle bundle("test", {{"w", weight, 0}});
  const std::vector<at::Tensor> states = bundle.add_state(1);
  EXPECT_EQ(states[0].strides(), weight.strides());
  EXPECT_FALSE(states[0].requires_grad());
}

TEST(TensorBundle, KeepsStatesInHostMemoryThatNoBudgetCounts) {
  install_cpu_memory();
  const at::Tensor weight =
      at::randn({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const at::Tensor large = parameter({100'000});
  TensorBundle bundle("test", {{"w", weight, 0}, {"large", large, 0}});
  const std::int64_t before = read_cpu_memory().used;
  const std::vector<at::Tensor> states = bundle.add_state(2, /*in_host_memory=*/true);
  EXPECT_LT(read_cpu_memory().used, before + 1000);
  EXPECT_EQ(states[0].strides(), weight.strides());
  EXPECT_EQ(bundle.all()[1].state2, states[1].const_data_ptr<float>());
  EXPECT_EQ(states[1].abs().max().item<float>(), 0);
  states[1].fill_(2);
  EXPECT_EQ(states[0].abs().max().item<float>(), 0) << "they share no memory";
}

TEST(TensorBundle, SaysThatHostMemoryIsShort) {
  install_cpu_memory();
  TensorBundle bundle("test", {{"w", parameter({8}), 0}});
  fail_cpu_allocation(0, /*persistently=*/true);
  EXPECT_THROW(catching_out_of_memory([&] { (void)bundle.add_state(1, /*in_host_memory=*/true); }),
               OutOfMemory);
  fail_cpu_allocation(-1);
}

TEST(TensorBundle, RefusesAGradientInAnotherMemoryOrder) {
  const at::Tensor weight = parameter({4, 3, 2, 2});
  weight.mutable_grad() = at::ones({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  TensorBundle bundle("test", {{"w", weight, 0}});
  EXPECT_THROW(bundle.bind_gradients(), UsageError);
}

TEST(TensorBundle, AcceptsAnyStrideWhereTheExtentIsOne) {
  const at::Tensor weight = parameter({4, 3, 1, 1});
  weight.mutable_grad() = at::ones({4, 3, 1, 1}).contiguous(at::MemoryFormat::ChannelsLast);
  TensorBundle bundle("test", {{"w", weight, 0}});
  bundle.bind_gradients();
  EXPECT_EQ(bundle.with_gradients().size(), 1u);
}

TEST(TensorBundle, RefusesParametersItCannotTrain) {
  const at::Tensor w = parameter({6});
  EXPECT_THROW(TensorBundle("test", {}), UsageError);
  EXPECT_THROW(TensorBundle("test", {{"w", at::ones({3}, at::kDouble), 0}}), UsageError);
  EXPECT_THROW(TensorBundle("test", {{"w", at::ones({3, 1}).expand({3, 4}), 0}}), UsageError);
  EXPECT_THROW(TensorBundle("test", {{"w", w, -1}}), UsageError);
  EXPECT_THROW(TensorBundle("test", {{"w", w, 0}, {"tied", w, 0}}), UsageError);
}

}  // namespace
}  // namespace triaccel
