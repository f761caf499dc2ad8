#include "triaccel/step/step_snapshot.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace triaccel {
namespace {

TEST(StepSnapshot, PutsBackBuffersOfEveryType) {
  const std::vector<at::Tensor> buffers = {at::randn({5000}), at::tensor({(1L << 40) + 3L}),
                                           at::ones({3}, at::kBool),
                                           at::randn({3}).to(at::kBFloat16), at::empty({0})};
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : buffers) before.push_back(buffer.clone());
  StepSnapshot snapshot(buffers, at::kCPU);
  snapshot.take_buffers();
  for (const at::Tensor& buffer : buffers) buffer.zero_();
  snapshot.put_back_buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    EXPECT_TRUE(at::equal(buffers[i], before[i])) << "buffer " << i;
}

TEST(StepSnapshot, MayHaveNoBuffers) {
  StepSnapshot snapshot({}, at::kCPU);
  snapshot.take_buffers();
  snapshot.put_back_buffers();
}

}  // namespace
}  // namespace triaccel
