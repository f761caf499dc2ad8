#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/ops/tensors/window_geometry.h"

namespace triaccel {

/// Whether the functions below take it: images [N, C, H, W] of F32, BF16 or F16, C <= 4,
/// channels-last or contiguous, of fewer than 2^30 numbers each; weight F32 [F, C, kh, kw],
/// channels-last, F a multiple of 8, at most 64 taps; padding less than the window, at least one
/// window and fewer than 2^30. Strides so large that 16 windows see more than 1024 pixels are left
/// out, and on CUDA chips before compute capability 8.0.
bool computes_stem_convolution(const at::Tensor& images, const at::Tensor& weight,
                               const WindowPlacement& geometry);

/// A convolution of images with few channels, for which others have no fast kernel. Images and
/// weight are rounded once to `type` (BF16 or F16), sums are FP32, the result [N, F, H', W'] is of
/// `type` and channels-last. On CUDA one kernel, which reads the images about once and writes the
/// result.
///
/// Neither is seen by autograd; both only enqueue, and give the same bits every time.
at::Tensor stem_convolution(const at::Tensor& images, const at::Tensor& weight,
                            const WindowPlacement& geometry, at::ScalarType type);

/// The gradient of the weight, F32, in its shape and memory order; the images are rounded to the
/// type of output_gradient, BF16 or F16 and channels-last. Reads both once; of `weight` only sizes
/// are used.
at::Tensor stem_weight_gradient(const at::Tensor& output_gradient, const at::Tensor& images,
                                const at::Tensor& weight, const WindowPlacement& geometry);

}  // namespace triaccel
