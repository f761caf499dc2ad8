#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/compression_loop.h"
#include "triaccel/policies/similarity_meter.h"
#include "triaccel/trainer/run_parts.h"

namespace triaccel {

SavedStoreOptions saved_store_options(const RunConfig& config);

/// How the tensors that a run's passes save are kept, decided while it trains.
class RunCompression final : public Stateful {
 public:
  RunCompression(const RunConfig& config, RunParts& parts);

  /// Samples that a look wants: a prime, since what divides a network's widths would be taken for
  /// the batch.
  static constexpr std::int64_t kSamples = 11;

  /// Whether the values are to be looked at again after this step.
  bool look_due(std::int64_t step) const;

  /// Looks at what a pass over the samples `ids` saves, and plans it.
  void look(const at::Tensor& ids, StepPlan& plan, PolicyEvents& events);

  /// Makes the runner know the tensors of a restored plan.
  void meet(const at::Tensor& ids, const StepPlan& plan);

  /// After an interval, and after an epoch; a plan that loss or accuracy asks for.
  void after(const StepReport& report, double progress, StepPlan& plan, PolicyEvents& events);
  void after_epoch(double accuracy, PolicyEvents& events);

  /// What the tensors looked like, and how they are kept; index as tensors_of(census).
  const std::vector<SavedStatistics>& tensors() const { return tensors_; }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  std::vector<SavedPlan> planned(const StepPlan& plan, PolicyEvents& events) const;
  void put(StepPlan& plan, PolicyEvents& events);

  RunParts& parts_;
  std::string keep_;
  std::int64_t look_every_;
  CompressionOptions options_;
  CompressionState state_;
  CompressionOrders orders_;
  bool replan_ = false;  // orders have changed since the last plan
  double highest_rate_ = 0;
  std::vector<SavedStatistics> tensors_;
  std::vector<SavedSketch> sketches_;  // of the tensors as their plans saw them
  std::vector<SavedPlan> plans_;       // by tensor
  std::vector<bool> unmoved_;          // by tensor, since then
};

}  // namespace triaccel
