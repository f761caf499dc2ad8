#pragma once

#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// Gram matrices of each layer's per-sample gradients, [samples, samples] on the device, from one
/// forward pass and one backward pass to the layers' outputs; weight gradients are not computed.
/// Only enqueues work. Index = LayerId.
///
/// Undefined for weights that are frozen, not read by a convolution, matrix product or lookup (such
/// as an added position table), or whose operator's input does not have the samples in its first
/// dimension.
std::vector<at::Tensor> fisher_products(const ProbeNetwork& network, const ProbeBatch& batch,
                                        const CurvatureOptions& options);

/// Curvature from Gram matrices [layers, samples, samples] on the host: the largest eigenvalues of
/// each layer's block of the empirical Fisher matrix, (1/b) sum_i g_i g_i^T over per-sample
/// gradients g_i, which the b x b Gram matrix shares. Empty for a layer with non-finite values.
std::vector<LayerCurvature> curvature_from(const at::Tensor& products, std::int64_t top);

/// Both combined. Index = LayerId; no eigenvalues for layers that are not measured.
std::vector<LayerCurvature> fisher_curvature(const ProbeNetwork& network, const ProbeBatch& batch,
                                             const CurvatureOptions& options);

}  // namespace triaccel
