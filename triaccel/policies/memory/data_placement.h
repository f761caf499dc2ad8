#pragma once

#include <cstdint>
#include <limits>

namespace triaccel {

/// Where the samples of a data set lie.
enum class DataPlacement {
  Auto,
  Device,  // in device memory: they count against the budget
  Host,    // in host memory, which a GPU reads over the bus: they take nothing from the budget
};

/// Under a budget, data sets up to one part of so many are kept on the device: what they take is
/// missing for activations, and a GPU can read them over the bus.
inline constexpr std::int64_t kPartsForData = 64;

/// The most bytes of samples, training and test set together, that are kept in device memory.
/// Budget 0: none.
constexpr std::int64_t largest_data_on_device(DataPlacement placement, std::int64_t budget_bytes) {
  constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  switch (placement) {
    case DataPlacement::Auto:
      return budget_bytes > 0 ? budget_bytes / kPartsForData : unlimited;
    case DataPlacement::Device:
      return unlimited;
    case DataPlacement::Host:
      break;
  }
  return 0;
}

}  // namespace triaccel
