#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/core/layer_registry.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/curvature/gradient_noise.h"
#include "triaccel/policies/policy_options.h"
#include "triaccel/policies/precision/precision_rules.h"

namespace triaccel {

/// Promotes a layer with repeatedly non-finite gradients to the next higher precision for many
/// ticks. A single overflow is handled by the loss scale. If the loss itself was non-finite, all
/// FP16 layers are candidates.
class NonfiniteWatch {
 public:
  NonfiniteWatch(std::size_t layers, const PrecisionOptions& options);

  void add(const StepReport& report, const StepPlan& current, const PrecisionLadder& ladder,
           PolicyEvents& events);

  /// The minimum precision of the layer; FP16 if unrestricted.
  Precision least(std::size_t layer) const;

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  std::int64_t most_steps_;
  std::int64_t hold_ticks_;
  std::vector<std::int64_t>
      bad_steps_;  // skipped with non-finite gradients in this layer, over consecutive ticks
  std::vector<std::int64_t> ticks_left_;   // of the promotion
  std::vector<std::uint8_t> promoted_to_;  // Precision
};

/// The initial format of a layer: BF16 or its replacement.
Precision starting_precision(const PrecisionOptions& options);

/// Chooses every layer's format: the highest required by its variance, its curvature and non-finite
/// gradients. Integer layers never change.
class PrecisionPolicy {
 public:
  PrecisionPolicy(const ControlOptions& options, std::vector<LayerKind> kinds);

  /// `promoted`: layers whose curvature requires the next higher format.
  void apply(const StepReport& report, const std::vector<bool>& promoted,
             const GradientNoise& noise, StepPlan& plan, PolicyEvents& events);

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  std::vector<Precision> by_variance(const StepReport& report, const GradientNoise& noise,
                                     const StepPlan& plan) const;
  void find_thresholds(PolicyEvents& events);
  bool may_change(Precision from, Precision to, std::size_t layer, std::int64_t& changes_left);

  PrecisionOptions options_;
  PolicySet set_;
  bool starts_at_first_;
  bool watches_nonfinite_;
  std::vector<LayerKind> kinds_;
  PrecisionLadder ladder_;
  GradientVariance variance_;
  NonfiniteWatch nonfinite_;
  std::int64_t ticks_ = 0;
  bool has_thresholds_ = false;
  VarianceThresholds thresholds_;
  std::vector<std::int64_t>
      lower_wanted_;  // consecutive ticks in which a lower format was requested
};

}  // namespace triaccel
