#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"

namespace triaccel {

/// v_l(t) = beta v_l(t-1) + (1 - beta) Var[gradient of layer l]: population variance over the
/// elements of the unscaled gradient.
class GradientVariance {
 public:
  /// `starts_at_first`: v_l begins at the first measurement instead of 0.
  GradientVariance(std::size_t layers, double beta, bool starts_at_first);

  /// Adds a tick; layers without gradients, or with non-finite ones, are skipped. Returns the
  /// number of layers measured for the first time.
  std::int64_t add(const std::vector<LayerSignals>& signals);

  bool known(std::size_t layer) const { return average_[layer] >= 0; }
  double operator[](std::size_t layer) const { return average_[layer]; }

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  double beta_;
  bool starts_at_first_;
  std::vector<double> average_;  // negative: not measured yet
};

}  // namespace triaccel
