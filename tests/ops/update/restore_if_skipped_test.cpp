#include "triaccel/ops/update/multi_tensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "triaccel/base/error.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel {
namespace {

at::Tensor control_with(std::int32_t skip) {
  const kernels::StepControl control = {.skip = skip};
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(sizeof control)}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &control, sizeof control);
  return bytes;
}

TEST(RestorePairs, PutBackRunningStatisticsAndCountersOfASkippedStep) {
  const at::Tensor mean = at::randn({7}), count = at::tensor({(1L << 40) + 3L}),
                   image = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const std::vector<at::Tensor> saved = {mean.clone(), count.clone(), image.clone()};
  const RestorePairs pairs("test", {mean, count, image}, saved);
  mean.fill_(9);
  count.add_(1);
  image.zero_();
  pairs.restore_if_skipped(control_with(0));
  EXPECT_EQ(count.item<std::int64_t>(), (1L << 40) + 4);
  pairs.restore_if_skipped(control_with(1));
  EXPECT_TRUE(at::equal(mean, saved[0]));
  EXPECT_TRUE(at::equal(count, saved[1]));
  EXPECT_TRUE(at::equal(image, saved[2]));
}

TEST(RestorePairs, SaveAndRestoreTensorsOfSeveralTypes) {
  const at::Tensor mean = at::randn({7}), count = at::tensor({(1L << 40) + 3L});
  const at::Tensor mean_before = mean.clone(), count_before = count.clone();
  const RestorePairs pairs("test", {mean, count}, {at::zeros_like(mean), at::zeros_like(count)});
  pairs.save();
  EXPECT_TRUE(at::equal(mean, mean_before));
  mean.fill_(9);
  count.add_(1);
  pairs.restore();
  EXPECT_TRUE(at::equal(mean, mean_before));
  EXPECT_TRUE(at::equal(count, count_before));
}

TEST(RestorePairs, MayBeNone) {
  const RestorePairs none("test", {}, {});
  none.save();
  none.restore();
  none.restore_if_skipped(control_with(1));
}

TEST(RestorePairs, RefusePairsThatDoNotMatch) {
  const at::Tensor w = at::ones({2, 3, 4, 4});
  EXPECT_THROW(RestorePairs("test", {w}, {}), UsageError);
  EXPECT_THROW(RestorePairs("test", {w}, {at::ones({2, 3, 4})}), UsageError);
  EXPECT_THROW(RestorePairs("test", {w}, {w.to(at::kInt)}), UsageError);
  EXPECT_THROW(RestorePairs("test", {w}, {w.contiguous(at::MemoryFormat::ChannelsLast)}),
               UsageError);
  EXPECT_THROW(RestorePairs("test", {at::ones({3}, at::kByte)}, {at::ones({3}, at::kByte)}),
               UsageError);
}

}  // namespace
}  // namespace triaccel
