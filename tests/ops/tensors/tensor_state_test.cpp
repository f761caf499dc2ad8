#include "triaccel/ops/tensors/tensor_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace triaccel {
namespace {

StateMap saved(const at::Tensor& tensor) { return {{"w", tensor_state("w", tensor)}}; }

TEST(TensorState, SharesTheBytesOfAContiguousCpuTensor) {
  const at::Tensor tensor = at::randn({3, 4}).requires_grad_();
  const StateView view = tensor_state("w", tensor);
  EXPECT_EQ(static_cast<const void*>(view.bytes.data()), tensor.data_ptr());
  EXPECT_EQ(view.shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(view.type, ElementType::F32);
}

TEST(TensorState, KeepsItsBytesAlive) {
  StateView view = tensor_state("w", at::full({1000}, 7, at::kLong));
  std::int64_t value = 0;
  std::memcpy(&value, view.bytes.data() + 999 * 8, 8);
  EXPECT_EQ(value, 7);
}

TEST(TensorState, StoresChannelsLastInRowMajorOrder) {
  const at::Tensor tensor = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const StateView view = tensor_state("w", tensor);
  const at::Tensor row_major = tensor.contiguous();
  EXPECT_EQ(std::memcmp(view.bytes.data(), row_major.data_ptr(), view.bytes.size()), 0);
}

TEST(TensorState, RoundTripsEveryTypeAndKeepsStridesAndIdentity) {
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt,
                                    at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const at::Tensor from = at::randint(0, 2, {2, 3, 4, 4}).to(type);
    at::Tensor into = at::zeros({2, 3, 4, 4}, type).contiguous(at::MemoryFormat::ChannelsLast);
    const void* address = into.data_ptr();
    restore_tensor(into, saved(from), "w");
    EXPECT_TRUE(at::equal(into, from)) << c10::toString(type);
    EXPECT_EQ(into.data_ptr(), address);
    EXPECT_TRUE(into.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(TensorState, RoundTripsScalarsAndEmptyTensors) {
  for (const at::Tensor& from : {at::tensor(3.5), at::empty({0, 4})}) {
    at::Tensor into = at::zeros_like(from);
    restore_tensor(into, saved(from), "w");
    EXPECT_TRUE(at::equal(into, from));
  }
}

TEST(TensorState, RestoresIntoALeafThatRequiresGradients) {
  at::Tensor into = at::zeros({3}).requires_grad_();
  restore_tensor(into, saved(at::ones({3})), "w");
  EXPECT_TRUE(at::equal(into, at::ones({3})));
  EXPECT_TRUE(into.is_leaf());
}

TEST(TensorState, RefusesWhatDoesNotFitAndSaysWhatItFound) {
  at::Tensor into = at::zeros({2, 3});
  EXPECT_THROW(restore_tensor(into, {}, "w"), StorageError);
  EXPECT_THROW(restore_tensor(into, saved(at::ones({2, 3}, at::kDouble)), "w"), StorageError);
  try {
    check_restorable(into, saved(at::ones({3, 2})), "w");
    FAIL() << "a wrong shape was accepted";
  } catch (const StorageError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("'w'"), std::string::npos);
    EXPECT_NE(message.find("[3, 2]"), std::string::npos) << message;
    EXPECT_NE(message.find("[2, 3]"), std::string::npos) << message;
  }
  EXPECT_TRUE(at::equal(into, at::zeros({2, 3})));
}

}  // namespace
}  // namespace triaccel
