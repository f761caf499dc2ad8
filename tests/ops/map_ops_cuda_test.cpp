#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/ops/bias.h"
#include "triaccel/ops/image_patches.h"
#include "triaccel/ops/max_pool.h"

namespace triaccel {
namespace {

class MapOpsOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(1);
  }
  const at::Device device_ = at::Device(at::kCUDA, 0);
};

TEST_F(MapOpsOnCuda, PoolAsOnTheCpu) {
  const PoolGeometry geometry = {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  const at::Tensor map =
      at::randn({4, 16, 9, 9}).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  const Maxima wanted = max_pool(map, geometry), found = max_pool(map.to(device_), geometry);
  EXPECT_TRUE(at::equal(found.values.cpu(), wanted.values));
  EXPECT_TRUE(at::equal(found.taps.cpu(), wanted.taps));
  EXPECT_TRUE(at::equal(max_pool_gradient(found.values, found.taps, map.sizes(), geometry).cpu(),
                        max_pool_gradient(wanted.values, wanted.taps, map.sizes(), geometry)));
}

TEST_F(MapOpsOnCuda, CutPatchesAsOnTheCpu) {
  const PatchGeometry geometry = {.window = {3, 3}, .padding = {1, 1}};
  const at::Tensor images = at::randn({4, 3, 9, 9});
  EXPECT_TRUE(at::equal(image_patches(images.to(device_), geometry, at::kHalf).cpu(),
                        image_patches(images, geometry, at::kHalf)));
}

TEST_F(MapOpsOnCuda, AddAndSumBiasesAsOnTheCpu) {
  for (const std::int64_t rows : {96, 5000}) {
    const at::Tensor matrix = at::randn({rows, 24}).to(at::kBFloat16), bias = at::randn({24});
    const at::Tensor on_device = matrix.to(device_);
    EXPECT_TRUE(at::allclose(bias_gradient(on_device).cpu(), bias_gradient(matrix), 1e-5, 1e-3));
    add_bias(on_device, bias.to(device_));
    add_bias(matrix, bias);
    EXPECT_TRUE(at::equal(on_device.cpu(), matrix));
  }
}

}  // namespace
}  // namespace triaccel
