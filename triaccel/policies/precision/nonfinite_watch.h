#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/policy_event.h"
#include "triaccel/policies/policy_options.h"
#include "triaccel/policies/precision/precision_ladder.h"

namespace triaccel {

/// The safety rung: a layer whose gradients keep being non-finite goes up one rung and stays there
/// for a long while. A single overflow is the business of the gradient scale. Where the loss itself
/// was not finite, every FP16 layer is suspected.
class NonfiniteWatch {
 public:
  NonfiniteWatch(std::size_t layers, const PrecisionOptions& options);

  void add(const StepReport& report, const StepPlan& current, const PrecisionLadder& ladder,
           PolicyEvents& events);

  /// The least precision the layer must have now; FP16 when there is nothing to fear.
  Precision least(std::size_t layer) const;

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  std::int64_t most_steps_;
  std::int64_t hold_ticks_;
  std::vector<std::int64_t> bad_steps_;   // skipped with this layer non-finite, in a row of ticks
  std::vector<std::int64_t> ticks_left_;  // of the lift
  std::vector<std::uint8_t> lifted_to_;   // Precision
};

}  // namespace triaccel
