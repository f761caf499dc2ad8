#include "triaccel/saved/saved_tensor_engine.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace triaccel {
namespace {

/// Counts, and keeps by reference.
struct Counter final : SavedTensorKeeper {
  std::function<at::Tensor()> keep(const at::Tensor& tensor) override {
    ++saved;
    return [this, data = tensor.tensor_data()] {
      ++read;
      return data;
    };
  }
  int saved = 0, read = 0;
};

at::Tensor product() {
  return torch::randn({2, 3}).requires_grad_().mm(torch::randn({3, 4}).requires_grad_());
}

TEST(SavedTensorScope, SeesEverySavedTensorWithinItself) {
  install_saved_tensor_engine();
  install_saved_tensor_engine();
  Counter counter;
  at::Tensor result;
  product();
  {
    const SavedTensorScope scope(counter);
    result = product();
  }
  product();
  EXPECT_EQ(counter.saved, 2);
  result.sum().backward();
  EXPECT_EQ(counter.read, 2);
}

TEST(SavedTensorScope, GivesWayToAnInnerOneAndToAPause) {
  install_saved_tensor_engine();
  Counter outer, inner;
  const SavedTensorScope scope(outer);
  {
    const SavedTensorScope other(inner);
    product();
    const SavedTensorPause pause;
    product();
  }
  EXPECT_EQ(inner.saved, 2);
  EXPECT_EQ(outer.saved, 0);
  product();
  EXPECT_EQ(outer.saved, 2);
}

TEST(SavedTensorScope, LeavesOtherThreadsAlone) {
  install_saved_tensor_engine();
  Counter counter;
  const SavedTensorScope scope(counter);
  std::thread(product).join();
  EXPECT_EQ(counter.saved, 0);
}

TEST(SavedTensorScope, EndsWhenForwardThrows) {
  install_saved_tensor_engine();
  Counter counter;
  try {
    const SavedTensorScope scope(counter);
    torch::ones({2, 3}).mm(torch::ones({2, 3}));
  } catch (const c10::Error&) {
  }
  product();
  EXPECT_EQ(counter.saved, 0);
}

TEST(SavedTensorPause, LetsATensorBeDifferentiatedTwice) {
  install_saved_tensor_engine();
  Counter counter;
  const SavedTensorScope scope(counter);
  const SavedTensorPause pause;
  const at::Tensor x = torch::full({1}, 2.0f).requires_grad_();
  const at::Tensor slope = torch::autograd::grad({x.pow(3)}, {x}, {}, true, true)[0];
  EXPECT_EQ(torch::autograd::grad({slope}, {x})[0].item<float>(), 12);
}

}  // namespace
}  // namespace triaccel
