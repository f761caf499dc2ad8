#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/compression/channel_levels.h"

namespace triaccel::kernels {

/// Below, a channel counts as one that does not vary: its inverse must be a number.
inline constexpr float kMinRange = 0x1.0p-100f;

/// Where the elements of a channel lie: `rows` of them, position by position, image by image.
struct ChannelRows {
  explicit ChannelRows(const MapsToLevel& maps)
      : channels(maps.order.channels),
        channel_stride(maps.order.channel_stride),
        image_stride(maps.order.image_stride),
        positions(maps.order.image_stride / maps.order.channels),
        position_stride(maps.order.channel_stride == 1 ? maps.order.channels : 1),
        rows(maps.count / maps.order.channels) {}

  TRIACCEL_HOST_DEVICE std::int64_t element(std::int64_t channel, std::int64_t row) const {
    return row / positions * image_stride + row % positions * position_stride +
           channel * channel_stride;
  }

  std::int64_t channels, channel_stride, image_stride, positions, position_stride, rows;
};

/// What one channel is levelled by.
struct ChannelLevel {
  float lowest, range, inverse;

  TRIACCEL_HOST_DEVICE ChannelLevel(float low, float high)
      : lowest(low), range(high - low), inverse(1.0f / range) {
    if (range <= kMinRange) range = inverse = 0.0f;
  }
};

TRIACCEL_HOST_DEVICE inline float levelled(float value, float lowest, float inverse_range) {
  return (value - lowest) * inverse_range;
}

}  // namespace triaccel::kernels
