#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"
#include "triaccel/signals/block_hessian.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {

/// Measures the curvature of the loss per layer, in FP32, on a small batch. Leaves weights,
/// gradients, buffers and random generators unchanged. Do not call inside a scope that changes
/// precisions or saved activations.
class CurvatureProbe final : public Stateful {
 public:
  CurvatureProbe(ProbeNetwork network, const CurvatureOptions& options, c10::Device device);

  /// Uses the first options.batch samples. On out of memory, halves them down to four, then looks
  /// for one eigenvalue only (hessian), then returns a report marked as skipped. Synchronizes with
  /// the device.
  CurvatureReport run(const at::Tensor& inputs, const at::Tensor& targets, double label_smoothing,
                      std::int64_t step);
  /// The same for `samples` whose loss the caller computes: the mean over the first of them.
  CurvatureReport run(std::int64_t samples,
                      const std::function<at::Tensor(std::int64_t samples)>& loss,
                      std::int64_t step);

  const ProbeNetwork& network() const { return network_; }

  /// Whether the model drew random numbers in a run.
  bool drew() const { return drew_; }

  /// hessian: iterations of the last run, over all layers.
  std::int64_t iterations() const { return iterations_; }

  /// The initial subspaces of the next hessian probe; empty for fisher_gram.
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  CurvatureReport run_on(std::int64_t available,
                         const std::function<ProbeBatch(std::int64_t samples)>& batch,
                         std::int64_t step);
  CurvatureReport measure(const ProbeBatch& batch, const CurvatureOptions& options);

  ProbeNetwork network_;
  CurvatureOptions options_;
  c10::Device device_;
  SubspaceBases bases_;
  std::int64_t iterations_ = 0;
  bool drew_ = false;
};

}  // namespace triaccel
