#pragma once

#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/signals/curvature_options.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// The inner products of each layer's sample gradients, [samples, samples] on the device, from one
/// forward pass and one backward pass to the layers' outputs; no weight gradient is formed. Only
/// enqueues. Index = LayerId.
///
/// Not measured, hence undefined: weights that are frozen, that no convolution, product or lookup
/// reads (a position table that is added), or whose operator's input does not have the samples
/// first.
std::vector<at::Tensor> fisher_products(const ProbeNetwork& network, const ProbeBatch& batch,
                                        const CurvatureOptions& options);

/// What such products [layers, samples, samples], on the host, say about each of them: the largest
/// eigenvalues of the layer's block of the empirical Fisher matrix, (1/b) sum_i g_i g_i^T over the
/// gradients g_i of the samples' losses. The b x b matrix of inner products has the same ones. A
/// layer with products that are not finite has none.
std::vector<LayerCurvature> curvature_from(const at::Tensor& products, std::int64_t top);

/// Both at once. Index = LayerId; a layer that is not measured has no eigenvalues.
std::vector<LayerCurvature> fisher_curvature(const ProbeNetwork& network, const ProbeBatch& batch,
                                             const CurvatureOptions& options);

}  // namespace triaccel
