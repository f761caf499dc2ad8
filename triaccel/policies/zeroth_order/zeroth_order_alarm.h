#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/core/state_view.h"

namespace triaccel {

/// Detects a rising training loss, the symptom of a learning rate that is too large for
/// zeroth-order steps. The variation between intervals sets the threshold.
class LossAlarm final : public Stateful {
 public:
  /// Adds the loss of one control interval; returns a message once per rise.
  std::optional<std::string> after(double loss, std::int64_t step);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  std::int64_t ticks_ = 0;
  std::int64_t high_ticks_ = 0;  // consecutive, far above the best
  std::int64_t best_step_ = 0;
  double mean_ = 0;       // of the loss, over about twenty intervals
  double deviation_ = 0;  // mean absolute deviation of one interval
  double best_ = 0;       // lowest mean since the last alarm
};

}  // namespace triaccel
