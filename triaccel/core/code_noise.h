#pragma once

#include <vector>

namespace triaccel {

/// Noise that compression adds to the gradient of one layer's parameters. Squared norms.
struct LayerCompressionNoise {
  double variance = 0;  // by the random offsets of rounding
  double square = 0;    // of the exact gradient
  bool operator==(const LayerCompressionNoise&) const = default;

  /// NaN where the layer has no gradient.
  double share() const { return variance / square; }
};

/// Noise that compressed activations add to the gradient of a few samples. Squared norms over all
/// parameters; of different samples, and under a loss scale, only their ratios can be compared.
struct CompressionNoise {
  double code_variance = 0;   // by the random offsets of rounding
  double batch_variance = 0;  // by the choice of samples
  double error = 0;           // mean square of the difference from the exact gradient, over its own
  std::vector<LayerCompressionNoise> layers = {};  // index = LayerId
  bool operator==(const CompressionNoise&) const = default;

  std::vector<double> shares() const {
    std::vector<double> all;
    for (const LayerCompressionNoise& layer : layers) all.push_back(layer.share());
    return all;
  }
};

}  // namespace triaccel
