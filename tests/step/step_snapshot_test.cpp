#include "triaccel/step/step_snapshot.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/signals/probe_pass.h"

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

/// A mask that was expanded cannot be written, and need not be: only strides are wrong with a view.
TEST(StepSnapshot, LeavesAloneWhatCannotBeWritten) {
  const at::Tensor table = at::rand({4, 6});
  const std::vector<at::Tensor> buffers = {at::ones({1, 4}).expand({3, 4}),
                                           at::ones({1, 4}, at::kBool).expand({3, 4}),
                                           table.slice(1, 0, 6, 2), at::rand({3})};
  const at::Tensor view_before = buffers[2].clone(), last_before = buffers[3].clone();
  StepSnapshot snapshot(buffers, at::kCPU);
  snapshot.take_buffers();
  buffers[2].zero_();
  buffers[3].zero_();
  snapshot.put_back_buffers();
  EXPECT_TRUE(at::equal(buffers[2], view_before));
  EXPECT_TRUE(at::equal(buffers[3], last_before));
  const at::Tensor ones = buffers[0].clone();
  { const UntouchedState state(buffers, at::kCPU); }
  EXPECT_TRUE(at::equal(buffers[0], ones));
}

TEST(StepSnapshot, MayHaveNoBuffers) {
  StepSnapshot snapshot({}, at::kCPU);
  snapshot.take_buffers();
  snapshot.put_back_buffers();
}

}  // namespace
}  // namespace triaccel
