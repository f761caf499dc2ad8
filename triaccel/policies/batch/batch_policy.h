#pragma once

#include <cstdint>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/batch/batch_robust.h"
#include "triaccel/policies/compression/gradient_noise.h"
#include "triaccel/policies/memory/pass_sizes.h"
#include "triaccel/policies/policy_event.h"
#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Fits the samples of a step, or of its forward passes, to the memory, and the learning rate to
/// the samples of a step. Off, it only returns to passes of the first size some while after an
/// out-of-memory.
class BatchPolicy {
 public:
  BatchPolicy(const ControlOptions& options, const StepPlan& start);

  /// `ran` is the plan the report speaks of; `plan` what the other policies made of it.
  void apply(const StepReport& report, const StepPlan& ran, const GradientNoise& noise,
             StepPlan& plan, PolicyEvents& events);

  void out_of_memory(const StepPlan& failed);

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  /// What may be used in all, in bytes; 0: not known, and nothing moves.
  double limit_bytes(const StepReport& report) const;
  double used_bytes(const StepReport& report) const;
  void apply_paper(const StepReport& report, const StepPlan& ran, StepPlan& plan,
                   PolicyEvents& events) const;
  void apply_robust(const StepReport& report, const StepPlan& ran, const GradientNoise& noise,
                    StepPlan& plan);
  /// The largest batch that still trains as well as the first one would, as far as is known.
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
  // Off, after an out-of-memory.
  std::int64_t retry_wait_;         // ticks before the passes double again
  std::int64_t retry_in_ = 0;       // ticks still to wait
  std::int64_t grown_back_to_ = 0;  // the pass such a doubling led to; 0: none did
};

}  // namespace triaccel
