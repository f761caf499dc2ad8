#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <future>
#include <vector>

#include "triaccel/core/step_report.h"
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

/// A fisher_gram measurement on a GPU, captured once, replayed like a step and read while the next
/// steps run, without synchronization. For models whose passes draw no random numbers.
class FisherReplay {
 public:
  /// Allocates all persistent buffers.
  FisherReplay(ProbeNetwork network, const CurvatureOptions& options, c10::Device device);

  /// Enqueues a measurement of options.batch samples; `captured`: only records it. Leaves buffers
  /// unchanged.
  void enqueue(const ProbeBatch& batch, bool captured);

  /// Result of the last measurement enqueued on the current stream; index = LayerId.
  std::future<std::vector<LayerCurvature>> read();

 private:
  ProbeNetwork network_;
  CurvatureOptions options_;
  c10::Device device_;
  at::Tensor products_;                // float [layers, batch, batch], of the measured ones first
  std::vector<std::size_t> measured_;  // their LayerIds
};

}  // namespace triaccel
