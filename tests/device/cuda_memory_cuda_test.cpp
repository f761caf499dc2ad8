#include "triaccel/device/cuda_memory.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <vector>

namespace triaccel {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

class CudaMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
    allow_expandable_segments();
    (void)bytes(1);  // starts the allocator
    release_cuda_cache();
    reset_cuda_memory_peak();
    before_ = read_cuda_memory().reserved;
  }
  void TearDown() override { limit_cuda_memory(0); }

  static at::Tensor bytes(std::int64_t count) {
    return at::empty({count}, at::TensorOptions(at::kByte).device(at::kCUDA));
  }
  std::int64_t taken() const { return read_cuda_memory().reserved - before_; }

  std::int64_t before_ = 0;
};

TEST_F(CudaMemory, GrowsByPagesOfTwoMebibytes) {
  const at::Tensor three = bytes(3 * kMiB);
  EXPECT_LE(taken(), 4 * kMiB);
  const at::Tensor thirteen = bytes(13 * kMiB);
  EXPECT_LE(taken(), 18 * kMiB);
}

TEST_F(CudaMemory, NeverPassesItsLimit) {
  constexpr std::int64_t kLimit = 64 * kMiB;
  limit_cuda_memory(before_ + kLimit);
  for (const std::int64_t size : {kMiB / 2, 3 * kMiB, 9 * kMiB, 11 * kMiB, 17 * kMiB}) {
    std::vector<at::Tensor> held;
    EXPECT_THROW(for (;;) held.push_back(bytes(size)), c10::OutOfMemoryError) << size;
    EXPECT_LE(taken(), kLimit) << size;
    EXPECT_GE(std::ssize(held) * size, kLimit - 12 * kMiB - size) << size;
    held.clear();
    release_cuda_cache();
  }
}

}  // namespace
}  // namespace triaccel
