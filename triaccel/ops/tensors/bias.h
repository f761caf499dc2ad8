#pragma once

#include <ATen/core/Tensor.h>

namespace triaccel {

// One number per channel, added to every row of a matrix whose channels lie innermost. Nothing here
// is seen by autograd; all only enqueue and give the same bits every time.

/// Whether the functions below take it: F32, BF16 or F16, at least one channel; a contiguous matrix
/// [rows, channels] or [.., rows, channels] of three dimensions, or a dense channels-last map
/// [N, channels, H, W].
bool takes_bias(const at::Tensor& matrix_or_map);

/// Adds `bias`, F32 [channels], contiguous, in place; the sum is rounded once. One kernel on CUDA,
/// which reads and writes the matrix.
void add_bias(const at::Tensor& matrix_or_map, const at::Tensor& bias);

/// The gradient of the bias, F32 [channels]: the sums over the rows, in FP32. Reads the matrix
/// once; on CUDA one kernel for up to 2048 rows, two for more.
at::Tensor bias_gradient(const at::Tensor& output_gradient);

}  // namespace triaccel
