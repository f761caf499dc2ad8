#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/compression/block_prediction.h"
#include "triaccel/policies/compression/compression_policy.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

SavedStoreOptions saved_store_options(const RunConfig& config);

/// The plan of a codec that the program registered under `name`; Raw where there is none.
SavedPlan registered_plan(const std::string& name);

/// How the tensors that a run's passes save are kept, decided while it trains.
class RunCompression final : public Stateful {
 public:
  RunCompression(const RunConfig& config, RunParts& parts);

  /// Samples that a look wants: a prime, since what divides a network's widths would be taken for
  /// the batch. A look does with fewer where memory is short.
  static constexpr std::int64_t kSamples = 11;

  /// Whether the values are to be looked at again after this step.
  bool look_due(std::int64_t step) const;

  /// Looks at what a pass over the samples `ids` saves, plans it, and measures what its codes add
  /// to the gradient: for the next after(), and in mode bounded until the bound holds. Throws
  /// OutOfMemory when not even the fewest samples fit; nothing has changed then.
  void look(const at::Tensor& ids, StepPlan& plan, PolicyEvents& events);

  /// Makes the runner know the tensors of a restored plan.
  void meet(const at::Tensor& ids, const StepPlan& plan);

  /// After an interval, and after an epoch; a plan without loss that a spike asks for.
  void after(const StepReport& report, double progress, StepPlan& plan, PolicyEvents& events);
  void after_epoch(double accuracy, PolicyEvents& events);

  /// The run went back to this step, with what it knew then: what broke it may have been codes.
  void after_rollback(std::int64_t step, StepPlan& plan, PolicyEvents& events);

  /// Adds to the report of an interval what looks have measured since the last one, and counts what
  /// it says of predicted blocks.
  void complete(StepReport& report);

  /// The noise of codes as last measured; without layers: never.
  const CompressionNoise& noise() const { return noise_; }
  /// Over the whole run, and what they save of a pass, as last measured; negative seconds: it takes
  /// that much longer.
  const PredictionCounts& predictions() const { return predictions_; }
  std::int64_t prediction_saved_bytes() const { return prediction_saved_bytes_; }
  double prediction_seconds() const { return prediction_seconds_; }

  /// What the tensors looked like, and how they are kept; index as tensors_of(census).
  const std::vector<SavedStatistics>& tensors() const { return tensors_; }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  /// Looks at the values of as many of the samples as fit, and returns those.
  at::Tensor measure(const at::Tensor& ids, const StepPlan& plan);
  void put(StepPlan& plan, PolicyEvents& events);
  /// Tests whether predicting blocks pays for the tensors of the plans in force.
  void test_prediction(const at::Tensor& ids, const StepPlan& plan);
  void put_predictions(StepPlan& plan, PolicyEvents& events);
  void time_prediction(std::int64_t samples, PolicyEvents& events);
  /// What codes add to the gradient; nothing, and an event, where memory is short.
  std::optional<CompressionNoise> measure_noise(const at::Tensor& ids, const StepPlan& plan,
                                                PolicyEvents& events);
  /// Measures the codes of `plan`, and plans anew while they break their bound; `events` are those
  /// of the plan.
  void probe_codes(const at::Tensor& ids, StepPlan& plan, PolicyEvents& events);
  /// Plans by the noise of each layer, and goes back where that does not pay.
  void try_calibration(const at::Tensor& ids, StepPlan& plan, PolicyEvents& events);

  RunParts& parts_;
  SavedPlan registered_;  // of a codec that keeps every tensor; Raw: the policy decides
  bool adapts_;
  std::int64_t look_every_;
  CompressionPolicy policy_;
  std::optional<BlockPrediction> prediction_;
  std::vector<SavedPlan> timed_plans_;  // those that prediction_seconds_ is for
  double prediction_seconds_ = 0;
  double highest_rate_ = 0;
  CompressionNoise noise_;         // of the last look that measured it
  bool noise_unreported_ = false;  // no tick has seen it yet
  bool noise_pending_ = false;     // nor any report
  PredictionCounts predictions_;
  std::int64_t prediction_saved_bytes_ = 0;
  std::vector<SavedStatistics> tensors_;
  std::vector<SavedPlan> plans_;  // by tensor
};

}  // namespace triaccel
