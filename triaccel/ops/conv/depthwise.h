#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/ops/tensors/window_geometry.h"

namespace triaccel {

/// Whether the functions below take it: input [N, C, H, W] of F32, BF16 or F16, dense,
/// channels-last, at an address that is a multiple of eight, of fewer than 2^31 pixels; weight F32
/// [C, 1, k, k], contiguous, with k 3 or 5; stride 1 or 2, the same in both directions; padding
/// less than k; at least one window. Any C; quickest on CUDA where it is a multiple of four.
bool computes_depthwise(const at::Tensor& input, const at::Tensor& weight,
                        const WindowPlacement& geometry);

/// A convolution in which every channel has its own filter. The FP32 weight is rounded to the
/// input's type as it is read, sums are FP32, the result [N, C, H', W'] has the input's type and is
/// channels-last. On CUDA one kernel, which moves the input and the result once.
///
/// None of the three is seen by autograd; all only enqueue, and give the same bits every time.
at::Tensor depthwise_forward(const at::Tensor& input, const at::Tensor& weight,
                             const WindowPlacement& geometry);

/// The gradient of the input, in its type and channels-last. Of `input` only sizes and type are
/// used. Moves output_gradient and the result once.
at::Tensor depthwise_input_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const at::Tensor& weight, const WindowPlacement& geometry);

/// The gradient of the weight, F32, in the weight's shape and memory order. Reads both maps once.
at::Tensor depthwise_weight_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                     const at::Tensor& weight, const WindowPlacement& geometry);

}  // namespace triaccel
