#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/ops/tensors/window_geometry.h"

namespace triaccel {

/// Whether the functions below take it: map [N, C, H, W] of F32, BF16 or F16, dense, channels-last,
/// of fewer than 2^30 pixels; at most 255 taps per window, padding at most half a window, at least
/// one window. Any C; quickest on CUDA where a pixel is a multiple of 16 bytes.
bool pools_maxima(const at::Tensor& map, const PoolGeometry& geometry);

/// What a pooling leaves: the maxima and, for its gradient, where in its window each was found.
struct Maxima {
  at::Tensor values;  // [N, C, H', W'], the map's type, channels-last
  at::Tensor taps;    // U8, as values: tap row * window columns + tap column
};

/// The largest number of every window; of equal ones the first in row order, and a NaN before any
/// number, as at::max_pool2d_with_indices decides. Moves the map, values and taps once.
///
/// Neither function is seen by autograd; both only enqueue, one kernel each on CUDA, and give the
/// same bits every time.
Maxima max_pool(const at::Tensor& map, const PoolGeometry& geometry);

/// The gradient of the map, in output_gradient's type and channels-last: at every pixel the FP32
/// sum of the gradients of those windows whose maximum it was. The output's gradient is
/// output_gradient + added_gradient, rounded as at::add rounds it; `added_gradient`, of the same
/// type, may be undefined. They and `taps` are channels-last. Moves each, and the result, once.
at::Tensor max_pool_gradient(const at::Tensor& output_gradient, const at::Tensor& taps,
                             at::IntArrayRef map_sizes, const PoolGeometry& geometry,
                             const at::Tensor& added_gradient = {});

}  // namespace triaccel
