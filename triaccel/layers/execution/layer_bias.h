#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triaccel {

/// Adds a layer's bias, one number for each place along the dimension `channel` of its output.
void add_bias_along(at::Tensor& output, const at::Tensor& bias, std::int64_t channel);

/// The bias's gradient, F32: the sums over all other dimensions.
at::Tensor bias_gradient_along(const at::Tensor& output_gradient, std::int64_t channel);

}  // namespace triaccel
