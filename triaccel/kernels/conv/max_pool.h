#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/common/window_axis.h"

namespace triaccel::kernels {

/// A pooling of maps that lie [image][row][column][channel], dense; fewer than 2^30 pixels in each.
/// A window has at most 255 taps and at least one of them in the map: padding is at most half a
/// window.
struct PoolShape {
  std::int64_t images = 0;
  std::int64_t channels = 0;
  WindowAxis rows = {};
  WindowAxis columns = {};
  FloatType type = FloatType::F32;
};

/// max_pool reads the map and writes the largest number of every window with the tap it was found
/// at, row * columns.window + column: of equal ones the first, of NaNs the last.
/// max_pool_gradient reads output_gradient and taps and writes at every pixel of the map the FP32
/// sum, in row order, of the gradients of those windows whose tap it is. second_gradient, where not
/// null, is added to output_gradient first, rounded to their type. Each map is moved once; the two
/// back ends give the same numbers.
namespace cpu {
void max_pool(const PoolShape& shape, const void* map, void* values, std::uint8_t* taps);
void max_pool_gradient(const PoolShape& shape, const void* output_gradient,
                       const void* second_gradient, const std::uint8_t* taps, void* map_gradient);
}  // namespace cpu
namespace cuda {
void max_pool(const PoolShape& shape, const void* map, void* values, std::uint8_t* taps,
              cudaStream_t stream);
void max_pool_gradient(const PoolShape& shape, const void* output_gradient,
                       const void* second_gradient, const std::uint8_t* taps, void* map_gradient,
                       cudaStream_t stream);
}  // namespace cuda

/// Whether the next number of a window replaces the best so far: of equal ones the first stays, of
/// NaNs the last.
TRIACCEL_HOST_DEVICE inline bool replaces(float value, float best) {
  return (value > best) | (value != value);  // no branches
}

/// The position of the map, of `size`, that is nearest to one that may lie outside. A window whose
/// taps all move there is the same window: it sees some positions again, but in the same order,
/// whether by their first or by their last appearance.
TRIACCEL_HOST_DEVICE inline std::int32_t nearest_inside(std::int32_t position, std::int32_t size) {
  const std::int32_t last = size - 1, not_before = position > 0 ? position : 0;
  return not_before < last ? not_before : last;
}

/// Windows of stride 2 over two neighbours, the positions 2t and 2t + 1 of a map: the windows from
/// t + kFirst on.
template <int kWindow, int kPadding>
struct WindowsOverPair {
  static constexpr int kFirst = (kPadding - kWindow + 1) / 2;  // not above 0
  static constexpr int kCount = (kPadding + 1) / 2 - kFirst + 1;

  /// The tap through which one of these windows sees one of the two; -1: it does not.
  TRIACCEL_HOST_DEVICE static constexpr int tap(int window, int neighbour) {
    const int tap = neighbour + kPadding - 2 * (kFirst + window);
    return tap >= 0 && tap < kWindow ? tap : -1;
  }
};

}  // namespace triaccel::kernels
