#pragma once

#include <cstddef>
#include <cstdint>

namespace triaccel::kernels {

/// The windows along one dimension of a map: window i sees the positions
/// first + i * stride + t * step for t in [0, taps), some of which may lie outside the map.
struct PatchWindows {
  std::int64_t map = 1;  // positions
  std::int64_t windows = 1;
  std::int64_t taps = 1;
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t step = 1;
};

/// A map of pixels, [samples, rows.map, columns.map, pixel_bytes], and the windows laid over it.
struct PatchSource {
  const std::byte* pixels = nullptr;
  std::int64_t samples = 0;
  std::int64_t pixel_bytes = 0;  // all channels of one pixel, whatever their type
  PatchWindows rows = {};
  PatchWindows columns = {};
};

/// One row per window: matrix [window rows, columns.windows; rows.taps, columns.taps, pixel_bytes]
/// for the window rows [begin, end) of the samples * rows.windows there are. A tap outside the map
/// is zero bytes, which is 0 in every number format.
namespace cpu {
void extract_patches(const PatchSource& source, std::int64_t begin, std::int64_t end,
                     std::byte* matrix);
}

}  // namespace triaccel::kernels
