#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/predicted_blocks.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/state_view.h"
#include "triaccel/policies/compression/similarity_meter.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Tests prediction on a sample of a tensor whose blocks take `block_bits` without it.
BlockTest block_test(const PredictionCounts& found, int block_bits);

/// Decides which tensors have their blocks predicted and how many bytes that saves, based on tests
/// of each tensor.
class BlockPrediction final : public Stateful {
 public:
  explicit BlockPrediction(const BlockMeterOptions& options = {}) : options_(options) {}

  /// Indices of the tensors to test. Tensors that changed since their last test are tested again.
  std::vector<std::size_t> due(std::span<const SavedStatistics> tensors,
                               std::span<const SavedPlan> plans);

  /// Adds the results of the tests that were due.
  void take(std::span<const std::size_t> due, std::span<const BlockTest> tests,
            std::span<const SavedPlan> plans);

  /// Enables prediction in the plans, for passes of `samples`, where it saves bytes; reports
  /// changes as an event.
  void write(std::span<const SavedStatistics> tensors, std::int64_t samples,
             std::span<SavedPlan> plans, PolicyEvents& events);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  struct Tensor {
    BlockMeter meter = {};
    SavedSketch profiled = {};
    std::uint8_t predicted = 0;  // as in SavedPlan, while the meter is on
  };

  BlockMeterOptions options_;
  std::vector<Tensor> tensors_;
  std::size_t last_count_ = 0;  // of predicted tensors
};

}  // namespace triaccel
