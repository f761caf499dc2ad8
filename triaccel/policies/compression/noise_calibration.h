#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"

namespace triaccel {

/// Ratio of the measured to the predicted compression noise of each layer: its share of the
/// measured noise over its share of the prediction, averaged over measurements. Part of a layer's
/// noise propagates from later layers, which more bits for its own tensors do not reduce, so the
/// benefit of calibrated plans has to be measured as well.
class NoiseCalibration {
 public:
  /// Adds the noise measured under plans with these predicted errors per tensor. Layers without
  /// noise or predicted error are skipped.
  void add(const CompressionNoise& measured, std::span<const SavedStatistics> tensors,
           std::span<const double> errors);

  /// In [1/4, 4]; 1 if unknown, and for layer -1.
  double of_layer(std::int64_t layer) const;

  /// The tensors with sensitivities scaled by the calibration of their layer.
  std::vector<SavedStatistics> calibrated(std::span<const SavedStatistics> tensors) const;

  /// Whether calibrated plans are better, given measurements without and with calibration; small
  /// differences are ignored.
  static bool pays(const CompressionNoise& without, const CompressionNoise& with) {
    return with.error < 0.9 * without.error;
  }

  StateView state(std::string name) const;
  void restore(const StateMap& saved, const std::string& name);

 private:
  std::vector<double> logarithms_ = {};  // index = LayerId; NaN: not measured yet
};

}  // namespace triaccel
