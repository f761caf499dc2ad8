#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "triaccel/ops/compression/encode_buffer.h"

namespace triaccel {

/// The windows of a pooling and the map that they lie on, (rows, columns) each.
struct WindowGeometry {
  std::array<std::int64_t, 2> map = {1, 1};
  std::array<std::int64_t, 2> window = {2, 2};  // at most 256 taps
  std::array<std::int64_t, 2> stride = {2, 2};
  std::array<std::int64_t, 2> padding = {0, 0};
  std::array<std::int64_t, 2> dilation = {1, 1};
};

/// The indices of at::max_pool2d_with_indices, I64 [..., H', W'] and contiguous or channels-last,
/// as places within their windows: I32 [window_bytes(elements, taps) / 4]. Exact for every index
/// that its window sees.
///
/// Neither function is seen by autograd; both only enqueue, one kernel each on CUDA.
at::Tensor encode_windows(const at::Tensor& indices, const WindowGeometry& geometry,
                          const CodeRoom& room = {});

/// The indices again, with the sizes and strides that they had.
at::Tensor decode_windows(const at::Tensor& taps, at::IntArrayRef sizes, at::IntArrayRef strides,
                          const WindowGeometry& geometry);

}  // namespace triaccel
