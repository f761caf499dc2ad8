#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

// Reuse of similar data: ranges and codecs across steps.

/// Compact statistics of a tensor: root mean squares and ranges per band, variance, density.
struct SavedSketch {
  static constexpr std::size_t kPerTransform = 2 * kFrequencyBands;
  std::array<float, kTransformBlocks.size()* kPerTransform + 2> values = {};
  bool operator==(const SavedSketch&) const = default;
};

SavedSketch sketch_of(const SavedStatistics& tensor);

/// Whether any value of a sketch changed by more than `limit`, relative to the larger one. Values
/// below a thousandth of the maximum are ignored as sampling noise.
bool has_changed(const SavedSketch& before, const SavedSketch& now, double limit = 0.1);

/// Per tensor: true if unchanged since `before`, so that it keeps its plan. All false if the lists
/// differ in length.
std::vector<bool> unchanged_tensors(std::span<const SavedSketch> before,
                                    std::span<const SavedStatistics> tensors, double limit = 0.1);

}  // namespace triaccel
