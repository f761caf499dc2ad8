#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/ops/window_placement.h"

namespace triaccel {

/// Whether the functions below take it: map [N, C, H, W] and weight [F, C, kh, kw] of BF16 or F16,
/// both of one type, dense, channels-last and at multiples of 16 bytes; C and F multiples of 64;
/// padding less than the window, at least one window; fewer than 2^22 pixels of either map, and
/// than 2^31 numbers of a sample and of the weight. The map that is written has a power of two
/// pixels a sample, at most 64, and what 64 of these see fits on chip. On CUDA from compute
/// capability 9.0 on.
bool computes_map_convolution(const at::Tensor& map, const at::Tensor& weight,
                              const WindowPlacement& geometry);
bool computes_map_input_gradient(const at::Tensor& map, const at::Tensor& weight,
                                 const WindowPlacement& geometry);

/// A convolution of small maps, on which other kernels leave most of the chip idle. Sums are FP32,
/// the result [N, F, H', W'] has the map's type and is channels-last. On CUDA one kernel.
///
/// Neither is seen by autograd; both only enqueue, and give the same bits every time.
at::Tensor map_convolution(const at::Tensor& map, const at::Tensor& weight,
                           const WindowPlacement& geometry);

/// The gradient of the map, in its type and channels-last; strides are 1. Of `map` only its sizes
/// are used; output_gradient is of its type, dense and channels-last.
at::Tensor map_input_gradient(const at::Tensor& output_gradient, const at::Tensor& map,
                              const at::Tensor& weight, const WindowPlacement& geometry);

}  // namespace triaccel
