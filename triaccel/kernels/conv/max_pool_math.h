#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::kernels {

/// Whether the next number of a window replaces the best so far: of equal ones the first stays, of
/// NaNs the last.
TRIACCEL_HOST_DEVICE inline bool replaces(float value, float best) {
  return (value > best) | (value != value);  // no branches
}

/// The position of the map, of `size`, that is nearest to one that may lie outside. A window whose
/// taps all move there is the same window: it sees some positions again, but in the same order,
/// whether by their first or by their last appearance.
TRIACCEL_HOST_DEVICE inline std::int32_t nearest_inside(std::int32_t position, std::int32_t size) {
  const std::int32_t last = size - 1, not_before = position > 0 ? position : 0;
  return not_before < last ? not_before : last;
}

/// Windows of stride 2 over two neighbours, the positions 2t and 2t + 1 of a map: the windows from
/// t + kFirst on.
template <int kWindow, int kPadding>
struct WindowsOverPair {
  static constexpr int kFirst = (kPadding - kWindow + 1) / 2;  // not above 0
  static constexpr int kCount = (kPadding + 1) / 2 - kFirst + 1;

  /// The tap through which one of these windows sees one of the two; -1: it does not.
  TRIACCEL_HOST_DEVICE static constexpr int tap(int window, int neighbour) {
    const int tap = neighbour + kPadding - 2 * (kFirst + window);
    return tap >= 0 && tap < kWindow ? tap : -1;
  }
};

}  // namespace triaccel::kernels
