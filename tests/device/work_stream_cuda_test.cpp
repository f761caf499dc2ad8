#include "triaccel/device/side_stream.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

TEST(WorkStreamCuda, LeavesNoMemoryOfItsLibrariesBehind) {
  if (!cuda_available()) GTEST_SKIP() << "this machine has no CUDA device";
  const at::Tensor a = at::ones({64, 64}, at::kCUDA);
  const std::int64_t before = read_cuda_memory().used;
  const auto multiply = [&] {
    at::mm(a, a);
    at::addmm(a[0], a, a);  // with a bias, which cuBLASLt adds
  };
  {
    const WorkStream stream(a.device());
    SideStream side;
    multiply();
    side.run(multiply, {});
    EXPECT_GT(read_cuda_memory().used, before);
    side.join();
  }
  EXPECT_EQ(read_cuda_memory().used, before);
}

}  // namespace
}  // namespace triaccel
