#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// Maps that lie [image][pixel][channel], dense; what belongs to a whole channel lies
/// [image][channel]. All of one type; arithmetic is FP32, rounded once.
struct ChannelMaps {
  std::int64_t images = 0;
  std::int64_t pixels = 0;
  std::int64_t channels = 0;
  FloatType type = FloatType::F32;
};

/// result[image][channel] = sum over the pixels of map * factor, divided by `divisor`. A null
/// factor counts as 1. Reads its maps once; the order of additions depends on the shape alone.
struct PixelSum {
  const void* map = nullptr;
  const void* factor = nullptr;
  void* result = nullptr;
  float divisor = 1;
};

/// result[image][pixel][channel] = map * gate + offset / divisor, gate and offset being
/// [image][channel]. Either half is optional: map and gate null, or offset null. Reads the map
/// once and writes the result.
struct ChannelGate {
  const void* map = nullptr;
  const void* gate = nullptr;
  const void* offset = nullptr;
  void* result = nullptr;
  float divisor = 1;
};

namespace cpu {
void pixel_sum(const ChannelMaps& maps, const PixelSum& sum);
void channel_gate(const ChannelMaps& maps, const ChannelGate& gate);
}  // namespace cpu
namespace cuda {
void pixel_sum(const ChannelMaps& maps, const PixelSum& sum, cudaStream_t stream);
void channel_gate(const ChannelMaps& maps, const ChannelGate& gate, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
