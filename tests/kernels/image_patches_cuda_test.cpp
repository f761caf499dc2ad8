#include "triaccel/kernels/image_patches.h"

#include "tests/kernels/cuda_fixture.h"
#include "tests/kernels/image_patches_cases.h"

namespace triaccel::kernels {
namespace {

class ImagePatchesOnCuda : public CudaTest {
 protected:
  void expect_oracle(const PatchShape& s) {
    const at::Tensor images = random_images(s), on_device = images.to(device_);
    const at::Tensor found = poisoned_matrix(s, device_);
    cuda::image_patches(s, on_device.data_ptr(), found.data_ptr(), stream());
    EXPECT_TRUE(at::equal(found.cpu(), patches_on_cpu(s, images))) << described(s);
  }
};

TEST_F(ImagePatchesOnCuda, AreThoseOfTheOracle) {
  for (const PatchShape& s : patch_shapes()) expect_oracle(s);
}

TEST_F(ImagePatchesOnCuda, AreThoseOfTheOracleInABatch) {
  for (PatchShape s : patch_shapes()) {
    s.images = 200;
    if (s.columns.input == 32 && s.image_type == FloatType::F32) expect_oracle(s);
  }
}

TEST_F(ImagePatchesOnCuda, TakeWindowsAsLargeAsAreAllowed) {
  expect_oracle({.images = 2,
                 .channels = 1,
                 .rows = fitted_windows(70, 64, 3, 5),
                 .columns = fitted_windows(70, 64, 3, 5),
                 .matrix_type = FloatType::F32});
}

TEST_F(ImagePatchesOnCuda, TakeNoImages) { cuda::image_patches({}, nullptr, nullptr, stream()); }

}  // namespace
}  // namespace triaccel::kernels
