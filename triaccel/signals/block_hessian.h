#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triaccel/core/step_report.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// Start of the next probe: for each layer an orthonormal basis [k, elements] of the last subspace,
/// in host memory, since k copies of all weights would use too much device memory. Undefined:
/// random start.
using SubspaceBases = std::vector<at::Tensor>;

struct HessianCurvature {
  std::vector<LayerCurvature> layers = {};  // index = LayerId
  std::int64_t iterations = 0;              // over all layers
};

/// The eigenvalues of largest magnitude of each layer's diagonal block of the Hessian. Exact
/// products H_l v by differentiating the layer's gradient, one layer at a time from the last (the
/// cheapest): a product over all layers would include off-diagonal blocks. Subspace iteration with
/// Rayleigh-Ritz values, which also finds negative eigenvalues. Starts from `bases` and updates
/// them. Ignores parameters that are frozen or do not affect the loss.
HessianCurvature hessian_curvature(const ProbeNetwork& network, const ProbeBatch& batch,
                                   const CurvatureOptions& options, SubspaceBases& bases);

}  // namespace triaccel
