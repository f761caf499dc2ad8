#include "triaccel/kernels/image_patches.h"

#include "tests/kernels/image_patches_cases.h"

namespace triaccel::kernels {
namespace {

/// libtorch's columns, [N, C * taps, windows], turned into our rows.
at::Tensor patches_by_libtorch(const PatchShape& s, const at::Tensor& images) {
  const at::Tensor columns =
      at::im2col(images.to(at::kFloat).contiguous(), {s.rows.window, s.columns.window}, {1, 1},
                 {s.rows.padding, s.columns.padding}, {s.rows.stride, s.columns.stride});
  const at::Tensor rows = columns.view({s.images, s.channels, -1, columns.size(2)})
                              .permute({0, 3, 2, 1})
                              .reshape({-1, patch_numbers(s)});
  return at::constant_pad_nd(rows, {0, patch_columns(patch_numbers(s)) - patch_numbers(s)})
      .to(torch_type_of(s.matrix_type));
}

TEST(ImagePatches, AreThoseOfLibtorch) {
  at::manual_seed(1);
  for (const PatchShape& s : patch_shapes()) {
    const at::Tensor images = random_images(s);
    ASSERT_TRUE(at::equal(patches_on_cpu(s, images), patches_by_libtorch(s, images)))
        << described(s);
  }
}

}  // namespace
}  // namespace triaccel::kernels
