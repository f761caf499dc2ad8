#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace triaccel {

/// Where the windows of a convolution lie, (rows, columns); never dilated.
struct PatchGeometry {
  std::array<std::int64_t, 2> window = {3, 3};
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> padding = {0, 0};
};

/// Whether image_patches takes it: images [N, C, H, W] of F32, BF16 or F16, C <= 8, channels-last
/// or contiguous; at most 4096 numbers a window, padding less than the window, at least one window;
/// fewer than 2^30 windows, and numbers in an image.
bool cuts_patches(const at::Tensor& images, const PatchGeometry& geometry);

/// The columns of the matrix: taps * channels, rounded up to a multiple of 8.
std::int64_t patch_columns(std::int64_t channels, const PatchGeometry& geometry);

/// The windows of images with few channels as a matrix [N * H' * W', patch_columns] of `type` (F32,
/// BF16 or F16), whose product with the weights is the convolution. A row holds the pixels of one
/// window in the order (tap row, tap column, channel), which is the memory order of a channels-last
/// weight; padding and the added columns are zero. Numbers are rounded once.
///
/// On CUDA one kernel, which reads the images about once and writes the matrix. Not seen by
/// autograd; only enqueues.
at::Tensor image_patches(const at::Tensor& images, const PatchGeometry& geometry,
                         at::ScalarType type);

}  // namespace triaccel
