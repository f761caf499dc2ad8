#pragma once

#include <algorithm>
#include <cstdint>

namespace triaccel::kernels {

/// The windows along one direction of a map: window o sees the positions o * stride - padding + tap
/// for taps 0 up to `window`, some of which may lie outside the map.
struct WindowAxis {
  std::int64_t input = 1;   // positions of the map
  std::int64_t output = 1;  // windows
  std::int64_t window = 1;  // taps
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

/// As many windows as fit, which may be none.
constexpr WindowAxis fitted_windows(std::int64_t input, std::int64_t window, std::int64_t stride,
                                    std::int64_t padding) {
  const std::int64_t last = input + 2 * padding - window;  // where the last window may begin
  return {.input = input,
          .output = last < 0 ? 0 : last / stride + 1,
          .window = window,
          .stride = stride,
          .padding = padding};
}

/// One past the last position of the map that a window sees; a stride may leave some over.
constexpr std::int64_t seen_end(const WindowAxis& axis) {
  return std::min(axis.input, (axis.output - 1) * axis.stride - axis.padding + axis.window);
}

}  // namespace triaccel::kernels
