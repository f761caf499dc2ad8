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

}  // namespace triaccel::kernels
