#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "triaccel/ops/conv/max_pool.h"

namespace triaccel {

/// Squeeze-and-excitation on a GPU, one kernel per operator: the mean of every channel of a
/// channels-last map, and the product of a map with one number per sample and channel. Where the
/// gates come from the mean of the very map they multiply, backward writes that map's gradient
/// once. Empty: libtorch computes it.
std::optional<at::Tensor> mean_of_channels(const at::Tensor& map);
/// `recompute_norms` as LayerExecutionOptions.
std::optional<at::Tensor> gated_channels(const at::Tensor& left, const at::Tensor& right,
                                         bool recompute_norms);

/// Max pooling of a channels-last map that keeps one byte per output for backward. Empty: libtorch
/// computes it.
std::optional<at::Tensor> pooled_maxima(const at::Tensor& map, const PoolGeometry& geometry);

}  // namespace triaccel
