#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace triaccel {

/// What a piece of device memory is for.
enum class MemoryPurpose { Weights, Gradients, Optimizer, Activations, Data, Workspace };

inline constexpr std::size_t kMemoryPurposes = 6;

constexpr std::string_view name_of(MemoryPurpose purpose) {
  switch (purpose) {
    case MemoryPurpose::Weights:
      return "weights";
    case MemoryPurpose::Gradients:
      return "gradients";
    case MemoryPurpose::Optimizer:
      return "optimizer";
    case MemoryPurpose::Activations:
      return "activations";
    case MemoryPurpose::Data:
      return "data";
    case MemoryPurpose::Workspace:
      return "workspace";
  }
  return "";
}

/// Device memory at one moment, in bytes.
struct MemoryReport {
  std::int64_t used = 0;      // in live tensors now
  std::int64_t peak = 0;      // most in live tensors since the last reset
  std::int64_t reserved = 0;  // most taken from the device since the last reset, pools of captured
                              // graphs included; >= peak
  std::int64_t limit = 0;     // the budget; 0: none
  std::array<std::int64_t, kMemoryPurposes> peak_by_purpose = {};  // index = MemoryPurpose
  bool operator==(const MemoryReport&) const = default;
};

}  // namespace triaccel
