#pragma once

#include "triaccel/base/host_device.h"

namespace triaccel {

/// How many parts of `size` it takes to hold `count`; the last may not be full.
template <typename Count, typename Size>
TRIACCEL_HOST_DEVICE constexpr auto divide_up(Count count, Size size) {
  return (count + size - 1) / size;
}

/// The least multiple of `unit` that is not below `count`.
template <typename Count, typename Unit>
TRIACCEL_HOST_DEVICE constexpr auto round_up(Count count, Unit unit) {
  return divide_up(count, unit) * unit;
}

}  // namespace triaccel
