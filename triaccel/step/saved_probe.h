#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/core/saved_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/saved/error_gains.h"
#include "triaccel/saved/saved_sampler.h"
#include "triaccel/saved/saved_store.h"
#include "triaccel/step/forward_pass.h"
#include "triaccel/step/step_batch.h"

namespace triaccel {

/// How the passes of a probe compute.
struct ProbeRules {
  ForwardRules forward = {};
  at::Tensor loss_scale = {};  // undefined: 1
};

/// Passes over a few samples that train nothing: weights, buffers and generators are the same after
/// each, and so is every grad(); every pass draws the same random numbers. Layers with
/// gradients of their own must be set to leave them in FP32. Waits for the device.
class SavedProbe {
 public:
  SavedProbe(const StepNetwork& network, const ProbeRules& rules, StepBatch& batch);

  /// Which operations save what in a forward pass, and some of the values.
  SavedCensus census(std::vector<SavedSample>& samples) const;

  /// What errors of the census's tensors would do to the gradients of weights.
  std::vector<ErrorGain> error_gains(const SavedCensus& census) const;

  /// The gradient under plans for the census, twice with other random offsets, compared with the
  /// exact one, and the same layer by layer. Of the three gradients two are in host memory. The
  /// batch's variance is that of its two halves' losses under one forward pass, so that norms see
  /// the same samples.
  CompressionNoise compression_noise(const SavedCensus& census, const std::vector<SavedPlan>& plans,
                                     const SavedStoreOptions& options) const;

  /// The squared error of the gradient, relative to its square, under each of several plans for the
  /// census. A pass for each.
  std::vector<double> gradient_errors(const SavedCensus& census,
                                      const std::vector<std::vector<SavedPlan>>& plans,
                                      const SavedStoreOptions& options) const;

 private:
  using Gradients = std::vector<at::Tensor>;  // by parameter, FP32; undefined: none

  /// A forward pass over the first `samples` under `keeper` (null: as autograd does it), and what
  /// follows it.
  void pass(SavedTensorKeeper* keeper, std::int64_t samples,
            const std::function<void(const PassResult&)>& then) const;
  /// The gradient of the first half's share of the loss, which takes a pass of its own where that
  /// cannot be told from the outputs.
  Gradients first_half(const PassResult& whole) const;
  Gradients take_gradients() const;

  const StepNetwork& network_;
  ProbeRules rules_;
  StepBatch& batch_;
  c10::Device device_;
};

}  // namespace triaccel
