#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/layers/convolution/convolution.h"

namespace triaccel {

/// Convolutions as products of matrices: each window of the input, channels last, is a row, and the
/// rows of the whole batch are multiplied by the weights at once. One or two dimensions, one group,
/// not transposed. The matrix of windows is made piece by piece in a bounded buffer. All tensors
/// are of one type, in which the products are computed; results have their channels last in memory.
at::Tensor gemm_convolution(const at::Tensor& input, const at::Tensor& weight,
                            const ConvolutionGeometry& geometry);

at::Tensor gemm_input_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                               const at::Tensor& weight, const ConvolutionGeometry& geometry);

/// In FP32 where it is a sum over pieces.
at::Tensor gemm_weight_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                const at::Tensor& weight, const ConvolutionGeometry& geometry);

/// Whether a convolution of this geometry can be computed here at all.
bool gemm_computes(const ConvolutionGeometry& geometry);

/// Whether every window is a row as the input lies in memory, so that the convolution is one plain
/// product, on any device: single taps, or one window that covers the map.
bool gemm_needs_no_patches(const at::Tensor& input, const at::Tensor& weight,
                           const ConvolutionGeometry& geometry);

}  // namespace triaccel
