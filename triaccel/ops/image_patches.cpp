#include "triaccel/ops/image_patches.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/kernels/image_patches.h"
#include "triaccel/ops/dispatch.h"
#include "triaccel/ops/tensor_check.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMostNumbers = std::int64_t{1} << 30;  // of an image; and windows
constexpr std::int64_t kMostChannels = 8;

bool is_images(const at::Tensor& images) {
  const auto type = images.scalar_type();
  return images.dim() == 4 && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) &&
         images.layout() == at::kStrided && images.size(1) >= 1 &&
         images.size(1) <= kMostChannels &&
         (images.is_contiguous() || images.is_contiguous(at::MemoryFormat::ChannelsLast));
}

bool fits(const PatchGeometry& geometry, std::int64_t channels) {
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t window = geometry.window[d], stride = geometry.stride[d];
    if (window < 1 || window > kernels::kMostPatchNumbers || stride < 1 || stride >= kMostNumbers ||
        geometry.padding[d] < 0 || geometry.padding[d] >= window)
      return false;
  }
  return geometry.window[0] * geometry.window[1] * channels <= kernels::kMostPatchNumbers;
}

/// Call it where is_images() and fits() hold.
kernels::PatchShape shape_of(const at::Tensor& images, const PatchGeometry& geometry) {
  const auto axis = [&](std::int64_t d) {
    const auto i = static_cast<std::size_t>(d);
    return kernels::fitted_windows(images.size(d + 2), geometry.window[i], geometry.stride[i],
                                   geometry.padding[i]);
  };
  return {.images = images.size(0),
          .channels = images.size(1),
          .rows = axis(0),
          .columns = axis(1),
          .channels_last = images.is_contiguous(at::MemoryFormat::ChannelsLast),
          .image_type = float_type_of("image_patches", "images", images.scalar_type())};
}

}  // namespace

bool cuts_patches(const at::Tensor& images, const PatchGeometry& geometry) {
  if (!images.defined() || !is_images(images) || !fits(geometry, images.size(1))) return false;
  const kernels::PatchShape shape = shape_of(images, geometry);
  const std::int64_t pixels = shape.rows.input * shape.columns.input;
  const std::int64_t windows = shape.rows.output * shape.columns.output;
  return pixels > 0 && pixels * shape.channels < kMostNumbers && windows > 0 &&
         shape.images < kMostNumbers / windows;
}

std::int64_t patch_columns(std::int64_t channels, const PatchGeometry& geometry) {
  return kernels::patch_columns(geometry.window[0] * geometry.window[1] * channels);
}

at::Tensor image_patches(const at::Tensor& images, const PatchGeometry& geometry,
                         at::ScalarType type) {
  constexpr std::string_view who = "image_patches";
  require(cuts_patches(images, geometry), who,
          "no kernel for these images, window, stride and padding; ask cuts_patches first");
  kernels::PatchShape shape = shape_of(images, geometry);
  shape.matrix_type = float_type_of(who, "type", type);
  const at::NoGradGuard no_gradient;
  at::Tensor matrix = at::empty({shape.images * shape.rows.output * shape.columns.output,
                                 patch_columns(shape.channels, geometry)},
                                images.options().dtype(type), at::MemoryFormat::Contiguous);
  const void* from = images.const_data_ptr();
  void* to = matrix.mutable_data_ptr();
  dispatch(
      who, images.device(), [&] { kernels::cpu::image_patches(shape, from, to); },
      [&](cudaStream_t stream) { kernels::cuda::image_patches(shape, from, to, stream); });
  return matrix;
}

}  // namespace triaccel
