#pragma once

#include <algorithm>
#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// Dense [row][channel].
struct BiasedMatrix {
  std::int64_t rows = 0;
  std::int64_t channels = 0;
  FloatType type = FloatType::F32;
};

/// Up to so many rows the sums take one kernel on CUDA.
inline constexpr std::int64_t kRowsOfOneSum = 2048;

/// In how many runs of rows cuda::bias_gradient sums a matrix: enough to occupy a large chip.
constexpr std::int64_t bias_row_chunks(const BiasedMatrix& matrix) {
  if (matrix.rows <= kRowsOfOneSum) return 1;
  constexpr std::int64_t blocks = 528, block_bytes = 512;  // of a row
  const std::int64_t row_bytes = matrix.channels * (matrix.type == FloatType::F32 ? 4 : 2);
  const std::int64_t groups = divide_up(row_bytes, block_bytes);
  return std::clamp(blocks / std::max<std::int64_t>(groups, 1), std::int64_t{1}, matrix.rows / 64);
}

/// FP32 numbers of scratch that cuda::bias_gradient needs, at a multiple of 16 bytes.
constexpr std::int64_t bias_gradient_scratch(const BiasedMatrix& matrix) {
  const std::int64_t chunks = bias_row_chunks(matrix);
  return chunks == 1 ? 0 : chunks * matrix.channels;
}

/// add_bias adds bias[channel] to every row, in FP32 and rounded once; it reads and writes the
/// matrix. bias_gradient writes the sum of every channel over the rows, in FP32 and in an order
/// that depends on shape and alignment alone; it reads the matrix once.
namespace cpu {
void add_bias(const BiasedMatrix& shape, const float* bias, void* matrix);
void bias_gradient(const BiasedMatrix& shape, const void* output_gradient, float* sums);
}  // namespace cpu
namespace cuda {
void add_bias(const BiasedMatrix& shape, const float* bias, void* matrix, cudaStream_t stream);
void bias_gradient(const BiasedMatrix& shape, const void* output_gradient, float* scratch,
                   float* sums, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
