#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

// Reuse of similar data: ranges and codecs across steps, and within a tensor blocks that resemble
// earlier ones.

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

/// Result of predicting blocks from earlier ones found by a hash, on a sample of a tensor.
struct BlockTest {
  std::int64_t blocks = 0;
  std::int64_t verified = 0;         // predicted well by an earlier block
  std::int64_t plain_bytes = 0;      // of the sample without prediction
  std::int64_t predicted_bytes = 0;  // with it, including flags, slots and gains
};

enum class BlockReuse : std::uint8_t {
  Testing,  // not predicting; tests continue
  On,       // predicting; tests continue
  Off,      // failed too often: no tests until the tensor changes
};

struct BlockMeterOptions {
  double least_hits = 0.15;   // share of blocks
  double least_saved = 0.02;  // share of bytes
  int most_failures = 3;      // in a row
};

/// Tracks whether predicting blocks pays off for one tensor.
struct BlockMeter {
  BlockReuse reuse = BlockReuse::Testing;
  double hits = 0;   // share of blocks, averaged over tests
  double saved = 0;  // share of bytes, likewise
  std::int64_t tests = 0;
  std::int64_t failures = 0;  // in a row
  bool operator==(const BlockMeter&) const = default;
};

/// The meter after a test, which passes if both averages exceed their minimum.
BlockMeter after_test(BlockMeter meter, const BlockTest& test, const BlockMeterOptions& options);

/// The meter after the tensor changed: a meter that is off starts testing again.
BlockMeter after_change(BlockMeter meter);

}  // namespace triaccel
