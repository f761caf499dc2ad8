#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"

namespace triaccel {

// What is alike need not be worked out twice: ranges and codecs from step to step, and within a
// tensor blocks that resemble earlier ones.

/// What a tensor looked like, on few numbers: root mean squares and ranges by band, variance,
/// density.
struct SavedSketch {
  static constexpr std::size_t kPerTransform = 2 * kFrequencyBands;
  std::array<float, kTransformBlocks.size()* kPerTransform + 2> values = {};
  bool operator==(const SavedSketch&) const = default;
};

SavedSketch sketch_of(const SavedStatistics& tensor);

/// Whether some number of a sketch changed by more than `limit`, relative to the larger one.
/// Numbers below a thousandth of the sketch's largest do not count: they are noise of the sample.
bool has_moved(const SavedSketch& before, const SavedSketch& now, double limit = 0.1);

/// By tensor: what has not moved since `before`, and so keeps its plan. None where the lists differ
/// in length.
std::vector<bool> unmoved_tensors(std::span<const SavedSketch> before,
                                  std::span<const SavedStatistics> tensors, double limit = 0.1);

/// One test of predicting blocks from earlier ones that a hash finds, on a sample of a tensor.
struct BlockTest {
  std::int64_t blocks = 0;
  std::int64_t verified = 0;         // that an earlier block predicts well
  std::int64_t plain_bytes = 0;      // of the sample without prediction
  std::int64_t predicted_bytes = 0;  // with it: flags, slots and gains counted in
};

enum class BlockReuse : std::uint8_t {
  Testing,  // codes as usual, and tests
  On,       // predicts, and tests
  Off,      // has failed too often: no tests until the tensor has moved
};

struct BlockMeterOptions {
  double least_hits = 0.15;   // share of blocks
  double least_saved = 0.02;  // share of bytes
  int most_failures = 3;      // in a row
};

/// Whether predicting blocks pays for one tensor: a value, moved on by tests.
struct BlockMeter {
  BlockReuse reuse = BlockReuse::Testing;
  double hits = 0;   // share of blocks, averaged over tests
  double saved = 0;  // share of bytes, likewise
  std::int64_t tests = 0;
  std::int64_t failures = 0;  // in a row
  bool operator==(const BlockMeter&) const = default;
};

/// The meter after a test. It passes when the averages are above both least shares.
BlockMeter after_test(BlockMeter meter, const BlockTest& test, const BlockMeterOptions& options);

/// The meter of a tensor that has moved: what was given up is tried again.
BlockMeter after_move(BlockMeter meter);

}  // namespace triaccel
