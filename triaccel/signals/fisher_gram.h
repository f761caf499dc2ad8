#pragma once

#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/signals/curvature_options.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// Each layer's largest eigenvalues of its block of the empirical Fisher matrix, (1/b) sum_i g_i
/// g_i^T over the gradients g_i of the samples' losses, from the b x b matrix of their inner
/// products, which has the same eigenvalues: one forward pass, one backward pass to the layers'
/// outputs, no weight gradient. Index = LayerId.
///
/// Not measured, hence without eigenvalues: weights that are frozen, that no convolution, product
/// or lookup reads (a position table that is added), or whose operator's input does not have the
/// samples first.
std::vector<LayerCurvature> fisher_curvature(const ProbeNetwork& network, const ProbeBatch& batch,
                                             const CurvatureOptions& options);

}  // namespace triaccel
