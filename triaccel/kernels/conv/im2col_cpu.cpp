#include "triaccel/kernels/conv/im2col.h"

#include <algorithm>
#include <cstring>

#include "triaccel/base/divide_up.h"

namespace triaccel::kernels::cpu {
namespace {

/// The taps of one window that lie inside the map.
struct Inside {
  std::int64_t first;
  std::int64_t last;  // one past
};

/// `start` is the position of tap 0.
Inside taps_inside(const PatchWindows& windows, std::int64_t start) {
  const auto taps_below = [&](std::int64_t position) {  // taps at positions < position
    return position <= start ? 0 : divide_up(position - start, windows.step);
  };
  const std::int64_t first = std::min(taps_below(0), windows.taps);
  return {first, std::max(first, std::min(taps_below(windows.map), windows.taps))};
}

/// The taps of one window in one row of the map, from `row` to `patch`.
void copy_taps(const PatchSource& source, const std::byte* row, std::int64_t start, Inside inside,
               std::byte* patch) {
  const auto bytes = [&](std::int64_t taps) {
    return static_cast<std::size_t>(taps * source.pixel_bytes);
  };
  const PatchWindows& columns = source.columns;
  std::memset(patch, 0, bytes(inside.first));
  std::memset(patch + bytes(inside.last), 0, bytes(columns.taps - inside.last));
  if (columns.step == 1) {  // neighbours in the map are neighbours in the patch
    std::memcpy(patch + bytes(inside.first), row + (start + inside.first) * source.pixel_bytes,
                bytes(inside.last - inside.first));
    return;
  }
  for (std::int64_t tap = inside.first; tap < inside.last; ++tap)
    std::memcpy(patch + bytes(tap), row + (start + tap * columns.step) * source.pixel_bytes,
                bytes(1));
}

/// All windows of one sample in one row of windows.
void copy_window_row(const PatchSource& source, const std::byte* sample, std::int64_t window_row,
                     std::byte* patches) {
  const PatchWindows &rows = source.rows, &columns = source.columns;
  const std::int64_t tap_row_bytes = columns.taps * source.pixel_bytes;
  const std::int64_t top = rows.first + window_row * rows.stride;
  for (std::int64_t j = 0; j < columns.windows; ++j) {
    const std::int64_t left = columns.first + j * columns.stride;
    const Inside inside = taps_inside(columns, left);
    for (std::int64_t tap = 0; tap < rows.taps; ++tap, patches += tap_row_bytes) {
      const std::int64_t y = top + tap * rows.step;
      if (y < 0 || y >= rows.map) {
        std::memset(patches, 0, static_cast<std::size_t>(tap_row_bytes));
        continue;
      }
      copy_taps(source, sample + y * columns.map * source.pixel_bytes, left, inside, patches);
    }
  }
}

}  // namespace

void extract_patches(const PatchSource& source, std::int64_t begin, std::int64_t end,
                     std::byte* matrix) {
  const std::int64_t sample_bytes = source.rows.map * source.columns.map * source.pixel_bytes;
  const std::int64_t window_row_bytes =
      source.columns.windows * source.rows.taps * source.columns.taps * source.pixel_bytes;
#pragma omp parallel for schedule(static) if (end - begin > 1)
  for (std::int64_t i = begin; i < end; ++i)
    copy_window_row(source, source.pixels + i / source.rows.windows * sample_bytes,
                    i % source.rows.windows, matrix + (i - begin) * window_row_bytes);
}

}  // namespace triaccel::kernels::cpu
