#pragma once

#include <cstdint>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/batch/batch_rules.h"
#include "triaccel/policies/curvature/gradient_noise.h"
#include "triaccel/policies/memory/pass_sizes.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Adapts the batch size, or the size of its forward passes, to the available memory, and the
/// learning rate to the batch size. When off, it only restores the initial pass size some time
/// after an out-of-memory error.
class BatchPolicy {
 public:
  BatchPolicy(const ControlOptions& options, const StepPlan& start);

  /// `ran` is the plan of the report; `plan` the next plan as modified by the other policies.
  void apply(const StepReport& report, const StepPlan& ran, const GradientNoise& noise,
             StepPlan& plan, PolicyEvents& events);

  void out_of_memory(const StepPlan& failed);

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  /// Memory limit in bytes; 0: unknown, the batch size stays fixed.
  double limit_bytes(const StepReport& report) const;
  double used_bytes(const StepReport& report) const;
  void apply_paper(const StepReport& report, const StepPlan& ran, StepPlan& plan,
                   PolicyEvents& events) const;
  void apply_robust(const StepReport& report, const StepPlan& ran, const GradientNoise& noise,
                    StepPlan& plan);
  /// Estimate of the largest batch that trains as well per sample as the initial one.
  double largest_useful_batch(const StepReport& report, const GradientNoise& noise) const;
  void grow_back(StepPlan& plan, PolicyEvents& events);

  BatchOptions options_;
  PolicySet set_;
  PaperGuards guards_;
  PassSizes sizes_;
  std::int64_t start_batch_;
  std::int64_t start_pass_;
  float start_scale_;
  RobustBatch robust_;
  double highest_rate_ = 0;  // learning rate before scales, over all reports
  // Used when off, after an out-of-memory error.
  std::int64_t retry_wait_;         // ticks until the pass size is doubled again
  std::int64_t retry_in_ = 0;       // ticks left
  std::int64_t grown_back_to_ = 0;  // pass size after the last doubling; 0: none
};

}  // namespace triaccel
