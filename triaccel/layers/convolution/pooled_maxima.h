#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "triaccel/ops/conv/max_pool.h"

namespace triaccel {

/// Max pooling of a channels-last map that keeps one byte an output for backward. Empty: libtorch
/// computes it.
std::optional<at::Tensor> pooled_maxima(const at::Tensor& map, const PoolGeometry& how);

}  // namespace triaccel
