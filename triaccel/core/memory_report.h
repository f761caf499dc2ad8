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
  constexpr std::string_view kNames[] = {"weights",     "gradients", "optimizer",
                                         "activations", "data",      "workspace"};
  return kNames[static_cast<std::size_t>(purpose)];
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
