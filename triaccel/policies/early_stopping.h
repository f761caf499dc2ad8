#pragma once

#include <cstdint>
#include <limits>

namespace triaccel {

/// Stops training when the evaluation loss has not improved for `patience` evaluations.
struct EarlyStopping {
  std::int64_t patience = 0;  // evaluations without improvement; 0: never stop early
  double best_loss = std::numeric_limits<double>::infinity();
  std::int64_t evaluations_since_best = 0;

  /// Adds one evaluation; returns true if training should stop.
  bool should_stop_after(double loss) {
    if (loss < best_loss) {
      best_loss = loss;
      evaluations_since_best = 0;
      return false;
    }
    ++evaluations_since_best;
    return patience > 0 && evaluations_since_best >= patience;
  }
};

}  // namespace triaccel
