#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/device/side_stream.h"

namespace triaccel {

/// Adds a layer's bias, one number for each place along the dimension `channel` of its output.
void add_bias_along(at::Tensor& output, const at::Tensor& bias, std::int64_t channel);

/// The bias's gradient, F32: the sums over all other dimensions.
at::Tensor bias_gradient_along(const at::Tensor& output_gradient, std::int64_t channel);

/// The bias of a layer and the dimension of the output that it runs along.
struct LayerBias {
  at::Tensor values = {};  // undefined: none
  std::int64_t channel = 0;

  /// Its gradient for autograd; undefined where it goes into grad() on the side stream instead.
  at::Tensor gradient(const at::Tensor& output_gradient, SideStream* side) const;
};

}  // namespace triaccel
