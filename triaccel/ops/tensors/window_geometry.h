#pragma once

#include <array>
#include <cstdint>

namespace triaccel {

// Where windows lie on a map, (rows, columns) each.

/// Those of a convolution; never dilated.
struct WindowPlacement {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> padding = {0, 0};
};

/// Those of a pooling; never dilated, their number rounded down.
struct PoolGeometry {
  std::array<std::int64_t, 2> window = {2, 2};
  std::array<std::int64_t, 2> stride = {2, 2};
  std::array<std::int64_t, 2> padding = {0, 0};
};

/// Those of any pooling of libtorch, and the size of the map.
struct WindowGeometry {
  std::array<std::int64_t, 2> map = {1, 1};
  std::array<std::int64_t, 2> window = {2, 2};  // at most 256 taps
  std::array<std::int64_t, 2> stride = {2, 2};
  std::array<std::int64_t, 2> padding = {0, 0};
  std::array<std::int64_t, 2> dilation = {1, 1};
};

}  // namespace triaccel
