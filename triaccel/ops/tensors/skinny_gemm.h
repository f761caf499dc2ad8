#pragma once

#include <ATen/core/Tensor.h>

namespace triaccel {

// Products with a weight of few outputs, such as a classifier's last layer, which libraries'
// kernels leave most of a GPU idle for. Nothing here is seen by autograd; all only enqueue, one
// kernel on CUDA, and give the same bits every time.

/// Whether the functions below take the two: contiguous matrices of one type (F32, BF16 or F16) on
/// one device, the weight with 1 to 32 rows and at most 2^20 columns.
bool takes_skinny_gemm(const at::Tensor& matrix, const at::Tensor& weight);

/// input [rows, features] times weight [outputs, features] transposed, in the same type. `bias`,
/// F32 [outputs], contiguous, or undefined, is added before the sum, in FP32, is rounded.
at::Tensor skinny_gemm(const at::Tensor& input, const at::Tensor& weight,
                       const at::Tensor& bias = {});

/// The gradient of the input, [rows, features]: output_gradient [rows, outputs] times the weight.
at::Tensor skinny_input_gradient(const at::Tensor& output_gradient, const at::Tensor& weight);

}  // namespace triaccel
