#pragma once

#include <ATen/ATen.h>

namespace triaccel {

/// A random map with a pixel's channels side by side.
inline at::Tensor channels_last(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes).to(type).contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace triaccel
