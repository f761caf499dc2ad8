#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/kernels/update/step_control.h"
#include "triaccel/ops/loss_data/augment.h"
#include "triaccel/ops/loss_data/cross_entropy.h"
#include "triaccel/ops/tensors/tensor_state.h"
#include "triaccel/ops/update/layer_scales.h"
#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {
namespace {

class OpsOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  }
  const at::Device device_ = at::Device(at::kCUDA, 0);
};

TEST_F(OpsOnCuda, ACapturedBatchFollowsIdsAndEpoch) {
  const at::Tensor images = at::randint(256, {40, 3, 8, 8}, at::kByte);
  const at::Tensor scale = at::rand({3}), shift = at::rand({3});
  const at::Tensor d_images = images.to(device_), d_scale = scale.to(device_),
                   d_shift = shift.to(device_);
  at::Tensor ids = at::zeros({16}, at::kLong).to(device_), epoch = ids.narrow(0, 0, 1).clone();
  at::Tensor output = at::empty({16, 3, 8, 8}, device_).contiguous(at::MemoryFormat::ChannelsLast);
  const kernels::Augmentation params = {.seed = 2, .padding = 2, .flip = true};
  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard pool(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    augment(output, d_images, ids, epoch, d_scale, d_shift, params);
    graph.capture_end();
  }
  for (std::int64_t e = 0; e < 3; ++e) {
    const at::Tensor host_ids = at::randint(40, {16}, at::kLong);
    const at::Tensor host_epoch = at::full({1}, e, at::kLong);
    ids.copy_(host_ids);
    epoch.copy_(host_epoch);
    synchronize(device_);
    graph.replay();
    synchronize(device_);
    at::Tensor expected = at::empty({16, 3, 8, 8});
    augment(expected, images, host_ids, host_epoch, scale, shift, params);
    EXPECT_TRUE(at::equal(output.cpu(), expected)) << "epoch " << e;
  }
}

TEST_F(OpsOnCuda, StateRoundTrips) {
  const at::Tensor from =
      at::randn({4, 3, 2, 2}, device_).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor into = at::zeros({4, 3, 2, 2}, device_);
  restore_tensor(into, {{"w", tensor_state("w", from)}}, "w");
  EXPECT_TRUE(at::equal(into, from));
}

TEST_F(OpsOnCuda, ACapturedCastFollowsTheScale) {
  at::Tensor scales = make_layer_scales(device_, 3);
  const at::Tensor from = at::randn({2, 3, 4, 5}, device_);
  at::cuda::CUDAGraph graph;
  at::Tensor half;
  {
    const c10::cuda::CUDAStreamGuard pool(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    half = scaled_cast(from, at::kHalf, scales, 2, false, true);
    graph.capture_end();
  }
  for (const double scale : {8.0, 1024.0}) {
    scales[2][0] = scale;
    synchronize(device_);
    graph.replay();
    synchronize(device_);
    EXPECT_TRUE(at::equal(half, (from * scale).to(at::kHalf))) << scale;
    EXPECT_EQ(scales[2][1].item<float>(), from.abs().max().item<float>());
  }
}

TEST_F(OpsOnCuda, RestoresBuffersOfASkippedStep) {
  const auto bytes = at::TensorOptions(at::kByte).device(device_);
  at::Tensor control = at::zeros({std::int64_t{sizeof(kernels::StepControl)}}, bytes);
  const at::Tensor mean = at::randn({33}, device_),
                   count = at::full({}, 5, at::TensorOptions(at::kLong).device(device_));
  const at::Tensor saved_mean = mean.clone(), saved_count = count.clone();
  const RestorePairs pairs("test", {mean, count}, {saved_mean, saved_count});
  mean.zero_();
  count.fill_(6);
  pairs.restore_if_skipped(control);
  EXPECT_EQ(count.item<std::int64_t>(), 6);
  control[offsetof(kernels::StepControl, skip)] = 1;
  pairs.restore_if_skipped(control);
  EXPECT_EQ(count.item<std::int64_t>(), 5);
  EXPECT_TRUE(at::equal(mean, saved_mean));
}

TEST_F(OpsOnCuda, SavesAndRestoresBuffersOfTwoTypes) {
  const at::Tensor mean = at::randn({33}, device_),
                   count = at::full({}, 5, at::TensorOptions(at::kLong).device(device_));
  const at::Tensor mean_before = mean.clone();
  const RestorePairs pairs("test", {mean, count}, {at::zeros_like(mean), at::zeros_like(count)});
  pairs.save();
  mean.zero_();
  count.fill_(6);
  pairs.restore();
  EXPECT_EQ(count.item<std::int64_t>(), 5);
  EXPECT_TRUE(at::equal(mean, mean_before));
}

TEST_F(OpsOnCuda, RefusesTensorsOnTwoDevices) {
  const at::Tensor score = make_running_score(device_);
  EXPECT_THROW(add_cross_entropy(score, at::zeros({1, 2}, device_), at::zeros({1}, at::kLong), 1),
               UsageError);
}

}  // namespace
}  // namespace triaccel
