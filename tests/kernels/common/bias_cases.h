#pragma once

#include <ATen/ATen.h>

#include <string>

#include "tests/kernels/conv/depthwise_cases.h"
#include "triaccel/kernels/common/bias.h"

namespace triaccel::kernels {

inline std::string described(const BiasedMatrix& m) {
  return text(m.rows, " rows of ", m.channels, " channels of type ", static_cast<int>(m.type));
}

inline at::Tensor random_matrix(const BiasedMatrix& m, at::Device device = at::kCPU) {
  return at::randn({m.rows, m.channels}, device).to(torch_type_of(m.type));
}

/// One FP32 addition, rounded once.
inline at::Tensor biased(const at::Tensor& matrix, const at::Tensor& bias) {
  return (matrix.to(at::kFloat) + bias).to(matrix.scalar_type());
}

/// Against FP64.
inline void expect_sums(const at::Tensor& sums, const at::Tensor& matrix, const std::string& what) {
  const at::Tensor exact = matrix.to(at::kDouble);
  expect_close(sums, exact.sum(0), exact.abs().sum(0), what);
}

}  // namespace triaccel::kernels
