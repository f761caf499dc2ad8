#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "triaccel/core/code_noise.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/state_view.h"

namespace triaccel {

/// How much more, or less, a layer's gradient feels codes than is predicted of the tensors that the
/// layer reads: its share of the measured noise over its share of the prediction, averaged over
/// measurements. Part of a layer's noise comes down from codes behind it, which no bits of its own
/// tensors lower: whether plans made so pay must be measured, too.
class NoiseCalibration {
 public:
  /// Takes in the noise that was measured under plans with these predicted errors, by tensor.
  /// Layers without noise, and those of whose tensors no error was predicted, stay as they are.
  void add(const CompressionNoise& measured, std::span<const SavedStatistics> tensors,
           std::span<const double> errors);

  /// In [1/4, 4]; 1 where nothing is known, and for layer -1.
  double of_layer(std::int64_t layer) const;

  /// The tensors, each as sensitive as its reader's layer was found to be.
  std::vector<SavedStatistics> calibrated(std::span<const SavedStatistics> tensors) const;

  /// Whether plans made by it are worth having, from what was measured under plans without and
  /// with it: few samples do not tell small differences.
  static bool pays(const CompressionNoise& without, const CompressionNoise& with) {
    return with.error < 0.9 * without.error;
  }

  StateView state(std::string name) const;
  void restore(const StateMap& saved, const std::string& name);

 private:
  std::vector<double> logarithms_ = {};  // index = LayerId; NaN: not measured yet
};

}  // namespace triaccel
