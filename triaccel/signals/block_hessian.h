#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/signals/curvature_options.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// Where the next probe starts: for each layer an orthonormal basis [k, elements] of the subspace
/// last found, in host memory, since k copies of all weights are too much for a device. Undefined:
/// start anywhere.
using SubspaceBases = std::vector<at::Tensor>;

struct HessianCurvature {
  std::vector<LayerCurvature> layers = {};  // index = LayerId
  std::int64_t iterations = 0;              // over all layers
};

/// Each layer's eigenvalues of largest magnitude of its diagonal block of the loss's Hessian. Exact
/// products H_l v by differentiating the layer's gradient, one layer at a time from the last (whose
/// products are the cheapest): a product with all layers at once would mix in the blocks beside the
/// diagonal. Subspace iteration with Rayleigh-Ritz values, so that negative eigenvalues are found
/// like positive ones. Starts from `bases`, leaves its own there. Parameters that are frozen or do
/// not reach the loss have no part.
HessianCurvature hessian_curvature(const ProbeNetwork& network, const ProbeBatch& batch,
                                   const CurvatureOptions& options, SubspaceBases& bases);

}  // namespace triaccel
