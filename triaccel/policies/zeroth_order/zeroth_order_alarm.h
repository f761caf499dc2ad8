#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/core/state_view.h"

namespace triaccel {

/// Says when the training loss rises instead of falling: what a step size that is too large looks
/// like where steps follow the loss alone. Noise of the loss from interval to interval is told from
/// a rise by its own size.
class LossAlarm final : public Stateful {
 public:
  /// The loss of one control interval; a message when it has risen, once a rise.
  std::optional<std::string> after(double loss, std::int64_t step);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  std::int64_t ticks_ = 0;
  std::int64_t high_ticks_ = 0;  // in a row, far above the best
  std::int64_t best_step_ = 0;
  double mean_ = 0;       // of the loss, over about twenty intervals
  double deviation_ = 0;  // mean distance of one interval's loss from it
  double best_ = 0;       // lowest mean since the last alarm
};

}  // namespace triaccel
