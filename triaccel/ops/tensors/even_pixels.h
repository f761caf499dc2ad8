#pragma once

#include <ATen/core/Tensor.h>

namespace triaccel {

/// Whether the kernels take such a map: [N, C, H, W] channels-last, a pixel a multiple of 16 bytes,
/// on the CPU or CUDA.
bool takes_even_pixels(const at::Tensor& map);

/// map[:, :, ::2, ::2], channels-last. No autograd.
at::Tensor even_pixels(const at::Tensor& map);

/// A map of `sizes` that is zero but at its even rows and columns, which are `even`. No autograd.
at::Tensor scatter_even_pixels(const at::Tensor& even, at::IntArrayRef sizes);

}  // namespace triaccel
