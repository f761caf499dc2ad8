#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/kernels/common/window_axis.h"

namespace triaccel::kernels {

/// The places of a pooling's maxima: `count` indices of pixels within their own map, which has
/// rows.input * columns.input of them. Both counts stay below 2^31, windows have at most 256 taps.
struct WindowPlaces {
  std::int64_t count = 0;  // of all windows of all maps
  std::int64_t inner = 1;  // from a window to the next column's: 1, or the channels where they come
                           // last
  WindowAxis rows = {};
  WindowAxis columns = {};
  std::int64_t row_dilation = 1;  // from a tap to the next
  std::int64_t column_dilation = 1;
};

constexpr int window_bits(const WindowPlaces& places) {
  return triaccel::window_bits(places.rows.window * places.columns.window);
}

/// encode_windows reads the indices and writes for each the tap, row * columns.window + column, in
/// window_bits(places) bits, lowest first; decode_windows turns taps into the same indices again.
/// Each moves 8 bytes and those bits for every window: bound by memory.
namespace cpu {
void encode_windows(const WindowPlaces& places, const std::int64_t* indices, std::uint32_t* taps);
void decode_windows(const WindowPlaces& places, const std::uint32_t* taps, std::int64_t* indices);
}  // namespace cpu
namespace cuda {
void encode_windows(const WindowPlaces& places, const std::int64_t* indices, std::uint32_t* taps,
                    cudaStream_t stream);
void decode_windows(const WindowPlaces& places, const std::uint32_t* taps, std::int64_t* indices,
                    cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
