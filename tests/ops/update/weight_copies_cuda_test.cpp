#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include "tests/ops/update/weight_copies_case.h"
#include "triaccel/device/device_choice.h"

namespace triaccel {
namespace {

class WeightCopiesOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(1);
  }
  const at::Device device_ = at::Device(at::kCUDA, 0);
};

TEST_F(WeightCopiesOnCuda, HoldTheRoundedPartOfEveryWeight) {
  const std::vector<WeightCopySpec> specs = awkward_specs(device_);
  WeightCopies copies(specs);
  for (std::size_t i = 0; i < specs.size(); ++i) copies.copy(i).fill_(-7);
  copies.refresh();
  for (std::size_t i = 0; i < specs.size(); ++i)
    EXPECT_TRUE(at::allclose(copies.copy(i), expected_copy(specs[i]), 0, 0, /*equal_nan=*/true))
        << "spec " << i;
}

TEST_F(WeightCopiesOnCuda, ACapturedRefreshFollowsTheWeightAndAllocatesNothing) {
  const at::Tensor weight = at::randn({64, 64, 3, 3}, device_);
  WeightCopies copies({{.weight = weight}});
  const auto allocations = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocation[0].allocated;
  };
  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard pool(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    const std::int64_t before = allocations();
    copies.refresh();
    EXPECT_EQ(allocations(), before);
    graph.capture_end();
  }
  for (int turn = 0; turn < 2; ++turn) {
    weight.normal_();
    synchronize(device_);
    graph.replay();
    synchronize(device_);
    EXPECT_TRUE(at::equal(copies.copy(0), weight.to(at::kBFloat16)));
  }
}

TEST_F(WeightCopiesOnCuda, TheWholeGradientIsThePartWithZerosAround) {
  for (const GradientPart& test : awkward_parts(device_)) {
    // What the allocator hands out next is poisoned: every element must be written.
    at::full_like(test.weight, NAN, test.part.options());
    const at::Tensor whole = whole_gradient(test.part, test.weight, test.first, test.last);
    EXPECT_EQ(whole.strides(), test.weight.strides());
    EXPECT_TRUE(at::equal(whole, test.expected())) << test.part.sizes() << " " << test.part.dtype();
  }
}

}  // namespace
}  // namespace triaccel
