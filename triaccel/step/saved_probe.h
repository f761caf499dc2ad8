#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/core/saved_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/data/dataset.h"
#include "triaccel/saved/error_gains.h"
#include "triaccel/saved/saved_sampler.h"
#include "triaccel/saved/saved_store.h"
#include "triaccel/step/forward_pass.h"

namespace triaccel {

/// How the passes of a probe compute.
struct ProbeRules {
  ForwardRules forward = {};
  double label_smoothing = 0;
  at::Tensor loss_scale = {};  // undefined: 1
};

/// Passes over a few samples that train nothing: weights, buffers and generators are the same after
/// each, and every pass draws the same random numbers. Gradients are left in no grad(). Layers with
/// gradients of their own must be set to leave them in FP32. Waits for the device.
class SavedProbe {
 public:
  SavedProbe(const StepNetwork& network, const ProbeRules& rules, const Dataset& data,
             const at::Tensor& ids);

  /// Which operations save what in a forward pass, and some of the values.
  SavedCensus census(std::vector<SavedSample>& samples) const;

  /// channel_sample_of the tensors that entries of a census tell of.
  std::vector<SavedSample> channel_samples(std::vector<std::int64_t> entries) const;

  /// What errors of the census's tensors would do to the gradients of weights.
  std::vector<ErrorGain> error_gains(const SavedCensus& census) const;

  /// The gradient under plans for the census, twice with other random offsets, compared with the
  /// exact one, and the same layer by layer. Of the three gradients two are in host memory. The
  /// batch's variance is that of its two halves' losses under one forward pass, so that norms see
  /// the same samples.
  CompressionNoise compression_noise(const SavedCensus& census, const std::vector<SavedPlan>& plans,
                                     const SavedStoreOptions& options) const;

 private:
  using Gradients = std::vector<at::Tensor>;  // by parameter, FP32; undefined: none

  /// A forward pass under `keeper` (null: as autograd does it), and what follows it.
  void pass(SavedTensorKeeper* keeper, const std::function<void(const at::Tensor&)>& then) const;
  /// Backward from the losses of the first samples; their gradients stay in grad().
  void backward(const at::Tensor& logits, std::int64_t samples, bool keep_graph) const;
  Gradients take_gradients() const;

  const StepNetwork& network_;
  ProbeRules rules_;
  Batch batch_;
};

}  // namespace triaccel
