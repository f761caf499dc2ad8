#pragma once

#include <array>
#include <cstdint>

#include "triaccel/core/saved_plan.h"

namespace triaccel {

/// What became of the tensors that one forward pass saved, and of those its backward has read.
/// Bytes are exact and known without asking the device.
struct SavedCounts {
  std::int64_t saved = 0;         // times that an operator saved a tensor, without constants
  std::int64_t passed_bytes = 0;  // of those, one tensor as often as it was saved
  std::int64_t unique_bytes = 0;  // each tensor once
  std::int64_t fp32_bytes = 0;    // the same, had all floating-point numbers 32 bits
  std::array<std::int64_t, kSavedCodecs> held_bytes = {};  // by codec; masks count as Mask
  std::int64_t prediction_saved_bytes = 0;                 // saved by prediction
  std::int64_t allocations = 0;      // of memory for encoded tensors, one or many in each
  std::int64_t allocated_bytes = 0;  // by those, with what lies unused between
  std::int64_t shared = 0;      // times that a tensor was there already, and nothing was encoded
  std::int64_t derived = 0;     // times that it is rebuilt from another one
  std::int64_t mismatches = 0;  // times that it was not what the plan is for, and stayed raw
  std::int64_t decodes = 0;     // in backward
  std::int64_t shared_decodes = 0;  // times that it needed none: the last one's values were there

  std::int64_t all_held_bytes() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : held_bytes) sum += bytes;
    return sum;
  }
  bool operator==(const SavedCounts&) const = default;
};

}  // namespace triaccel
