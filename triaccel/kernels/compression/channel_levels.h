#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/compression/codec_map.h"

// Note [Levelled channels]
// A batch norm divides every channel by its deviation, so an error that is small compared with one
// channel may be large compared with another that hardly varies, and in the norm's backward it
// counts three times over. A range for 256 neighbours of a small channels-last map spans as many
// channels, and its errors are as large as the liveliest of them allows. Hence each channel is
// brought to 0 … 1 before it is encoded in groups, and decoding maps it back. A channel that does
// not vary is kept exactly.
namespace triaccel::kernels {

/// Dense maps whose `count` elements belong to channels as `order` says.
struct MapsToLevel {
  FloatType type = FloatType::F32;
  std::int64_t count = 0;
  ChannelOrder order = {};
};

/// levelled = (values - lowest) / range, in the type of the values; lowest and range are F32
/// [channels], with a range of 0 and zeros for a channel that does not vary. A channel that holds a
/// NaN or an infinity gets a NaN. Values are read twice, the second time from the cache where maps
/// are as small as this is made for, and written once.
namespace cpu {
void level_channels(const MapsToLevel& maps, const void* values, void* levelled, float* lowest,
                    float* range);
}  // namespace cpu
namespace cuda {
void level_channels(const MapsToLevel& maps, const void* values, void* levelled, float* lowest,
                    float* range, cudaStream_t stream);
}  // namespace cuda

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
