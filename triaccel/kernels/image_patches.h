#pragma once

#include <cstdint>

#include "triaccel/kernels/cuda_stream.h"
#include "triaccel/kernels/tensor_list.h"
#include "triaccel/kernels/window_axis.h"

namespace triaccel::kernels {

/// Windows over dense images of few channels, and the matrix they are written to as rows: fewer
/// than 2^30 windows and numbers in an image, at most kMostPatchNumbers numbers in a window.
struct PatchShape {
  std::int64_t images = 0;
  std::int64_t channels = 0;
  WindowAxis rows = {};
  WindowAxis columns = {};
  bool channels_last = true;  // [image][row][column][channel], else [image][channel][row][column]
  FloatType image_type = FloatType::F32;
  FloatType matrix_type = FloatType::Bf16;
};

inline constexpr std::int64_t kMostPatchNumbers = 4096;

constexpr std::int64_t patch_numbers(const PatchShape& shape) {
  return shape.rows.window * shape.columns.window * shape.channels;
}

/// Columns of the matrix: what a window holds, rounded up so that a row of 16-bit numbers is a
/// multiple of 16 bytes.
constexpr std::int64_t patch_columns(std::int64_t numbers) { return (numbers + 7) / 8 * 8; }

/// Writes [image * window row * window column][patch_columns], numbers in the order (tap row, tap
/// column, channel), rounded to the matrix's type; zeros outside the image and in added columns.
/// The matrix starts at a multiple of 16 bytes and is written once, the images are read about once.
namespace cpu {
void image_patches(const PatchShape& shape, const void* images, void* matrix);
}
namespace cuda {
void image_patches(const PatchShape& shape, const void* images, void* matrix, cudaStream_t stream);
}

}  // namespace triaccel::kernels
