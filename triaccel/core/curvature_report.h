#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace triaccel {

/// How the curvature of a layer is estimated.
enum class CurvatureMode {
  Hessian,     // top eigenvalues of the layer's diagonal block of the loss's Hessian
  FisherGram,  // top eigenvalues of the layer's block of the empirical Fisher matrix
};

constexpr std::string_view name_of(CurvatureMode mode) {
  constexpr std::string_view kNames[] = {"hessian", "fisher_gram"};
  return kNames[static_cast<std::size_t>(mode)];
}

/// The loss around one layer's weights, seen from a small batch.
struct LayerCurvature {
  std::vector<double> eigenvalues = {};  // the largest first, signed; empty: not measured
  // From per-sample gradients g_i of the layer (fisher_gram only; both 0 otherwise):
  double gradient_noise = 0;   // trace of their covariance
  double gradient_signal = 0;  // squared norm of their mean, unbiased; may come out negative
  bool operator==(const LayerCurvature&) const = default;

  double largest() const { return eigenvalues.empty() ? 0 : eigenvalues.front(); }
};

/// One curvature probe over all layers.
struct CurvatureReport {
  CurvatureMode mode = CurvatureMode::FisherGram;
  std::int64_t step = 0;
  std::int64_t batch = 0;  // samples used; fewer than asked for when memory was short
  double seconds = 0;
  std::int64_t negative = 0;  // layers whose eigenvalue of largest magnitude is negative
  std::string skipped = {};   // why there was no probe; empty: there was one
  std::vector<LayerCurvature> layers = {};  // index = LayerId; empty when skipped
  bool operator==(const CurvatureReport&) const = default;
};

}  // namespace triaccel
