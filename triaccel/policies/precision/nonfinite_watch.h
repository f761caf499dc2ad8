#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/policy_options.h"
#include "triaccel/policies/precision/precision_ladder.h"

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

}  // namespace triaccel
