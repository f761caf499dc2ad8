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

}  // namespace triaccel::kernels
