#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/predicted_blocks.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/state_view.h"
#include "triaccel/policies/compression/similarity_meter.h"
#include "triaccel/policies/policy_event.h"

namespace triaccel {

/// A test of a sample of a tensor whose blocks take `block_bits` without prediction.
BlockTest block_test(const PredictionCounts& found, int block_bits);

/// Which tensors have their blocks predicted, and how many of their bytes that saves: a meter for
/// each, which tests move.
class BlockPrediction final : public Stateful {
 public:
  explicit BlockPrediction(const BlockMeterOptions& options = {}) : options_(options) {}

  /// Indices of the tensors to be tested. What has moved since its last test is tried again.
  std::vector<std::size_t> due(std::span<const SavedStatistics> tensors,
                               std::span<const SavedPlan> plans);

  /// Takes the tests of what is due.
  void take(std::span<const std::size_t> due, std::span<const BlockTest> tests,
            std::span<const SavedPlan> plans);

  /// Writes into plans of passes of so many samples what is predicted, where that takes fewer
  /// bytes; an event tells of changes.
  void write(std::span<const SavedStatistics> tensors, std::int64_t samples,
             std::span<SavedPlan> plans, PolicyEvents& events);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  struct Tensor {
    BlockMeter meter = {};
    SavedSketch looked = {};
    std::uint8_t predicted = 0;  // as SavedPlan has it, while the meter is on
  };

  BlockMeterOptions options_;
  std::vector<Tensor> tensors_;
  std::size_t last_count_ = 0;  // of tensors that are predicted
};

}  // namespace triaccel
