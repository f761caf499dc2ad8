#pragma once

#include <array>
#include <cstdint>

namespace triaccel {

/// Where the windows of a convolution lie, (rows, columns); never dilated.
struct WindowPlacement {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> padding = {0, 0};
};

}  // namespace triaccel
