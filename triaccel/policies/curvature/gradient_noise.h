#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"

namespace triaccel {

/// Variance of per-sample gradients, from curvature probes. Numerator and denominator of the noise
/// scale are averaged separately, since their ratio is too noisy.
class GradientNoise {
 public:
  explicit GradientNoise(std::size_t layers);

  /// Adds a probe; probes without per-sample gradients are ignored.
  void add(const CurvatureReport& probe);

  /// Trace of the covariance of one sample's gradient, of one layer; 0: not measured.
  double of_layer(std::size_t layer) const { return noise_[layer]; }

  bool measured() const { return noise() > 0; }
  double noise() const;   // the same over all layers
  double signal() const;  // squared norm of the mean gradient; not below 0

  /// B_noise = noise / signal (McCandlish et al. 2018): beyond it a larger batch saves few steps.
  /// Empty if not measured, or if the mean gradient is not significant.
  std::optional<double> scale() const;

  void save(std::vector<StateView>& state) const;
  void restore(const StateMap& saved);

 private:
  std::vector<double> noise_;
  double signal_ = 0;  // unbiased, so it may be negative
};

}  // namespace triaccel
