#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/gradient_moments.h"

namespace triaccel::kernels {

/// Elements summed in FP32 before FP64 takes over: few enough that the rounding does not show.
inline constexpr int kElementsPerLane = 16;

/// Adds one stored element to a lane's FP32 sums. `inverse_scale` is 1 / loss scale.
TRIACCEL_HOST_DEVICE inline void add_element(float stored, float inverse_scale, float& sum,
                                             float& sum_of_squares, float& absolute_maximum,
                                             std::int32_t& nonfinite) {
  const bool finite = fabsf(stored) <= FLT_MAX;  // false for NaN
  const float value = finite ? stored * inverse_scale : 0.0f;
  const float magnitude = fabsf(value);
  sum += value;
  sum_of_squares += value * value;
  absolute_maximum = magnitude > absolute_maximum ? magnitude : absolute_maximum;
  nonfinite += finite ? 0 : 1;
}

TRIACCEL_HOST_DEVICE inline void add_chunk(LayerMoments& layer, const ChunkMoments& chunk) {
  layer.count += chunk.count;
  layer.sum += chunk.sum;
  layer.sum_of_squares += chunk.sum_of_squares;
  layer.nonfinite += chunk.nonfinite;
  if (chunk.absolute_maximum > layer.absolute_maximum)
    layer.absolute_maximum = chunk.absolute_maximum;
}

}  // namespace triaccel::kernels
