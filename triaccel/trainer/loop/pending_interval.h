#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"

namespace triaccel {

/// What was measured since the last decision. A run may be saved, cut and resumed between two
/// decisions; each sees the same interval as if it had not been.
class PendingInterval final : public Stateful {
 public:
  void add(const StepReport& report);

  /// The interval up to now as one report, and a new interval.
  StepReport take() { return std::exchange(so_far_, {}); }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  StepReport so_far_;
};

}  // namespace triaccel
