#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/core/state_view.h"
#include "triaccel/signals/block_hessian.h"
#include "triaccel/signals/curvature_options.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// An occasional measurement of the loss's curvature around each layer's weights, in FP32, on a
/// small batch. Weights, gradients, buffers and random generators are the same after it as before.
/// Open no scope that changes precisions or stored activations around it.
class CurvatureProbe final : public Stateful {
 public:
  CurvatureProbe(ProbeNetwork network, const CurvatureOptions& options, c10::Device device);

  /// Looks at the first options.batch samples. Out of memory it halves them, down to four, and
  /// then gives up with a report that says so. Waits for the device.
  CurvatureReport run(const at::Tensor& inputs, const at::Tensor& targets, double label_smoothing,
                      std::int64_t step);

  const ProbeNetwork& network() const { return network_; }

  /// Whether the network drew random numbers in a run.
  bool drew() const { return drew_; }

  /// hessian: what the last run took, over all layers.
  std::int64_t iterations() const { return iterations_; }

  /// The subspaces from which the next hessian probe starts; nothing for fisher_gram.
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  CurvatureReport measure(const ProbeBatch& batch);

  ProbeNetwork network_;
  CurvatureOptions options_;
  c10::Device device_;
  SubspaceBases bases_;
  std::int64_t iterations_ = 0;
  bool drew_ = false;
};

}  // namespace triaccel
