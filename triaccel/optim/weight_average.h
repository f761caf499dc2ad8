#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/kernels/update/weight_average.h"
#include "triaccel/ops/tensors/tensor_bundle.h"
#include "triaccel/optim/named_states.h"

namespace triaccel {

struct WeightAverageOptions {
  double decay = 0.999;
  bool warm_up = true;  // use min(decay, (1 + t) / (10 + t)) at step t, so that a short run is not
                        // stuck at its initial weights
};

/// Exponential moving average of weights. Floating-point buffers (running statistics of norms) may
/// be averaged too: list them among the parameters. States are named "average/conv1.weight".
class WeightAverage : public Stateful {
 public:
  /// Starts from the parameters' current values.
  WeightAverage(const WeightAverageOptions& options, std::vector<ParameterRef> parameters);

  /// Call after Optimizer::update. Only enqueues work, does not allocate; no effect for skipped
  /// steps.
  void update(const at::Tensor& step_control);

  /// Swaps weights and averages in place, so that tensors, views and captured graphs stay valid; a
  /// second call restores them. ScopedAverage does both.
  void swap();

  std::int64_t state_bytes() const { return averages_.device_bytes(); }
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  kernels::WeightAverageStep step_;
  TensorBundle bundle_;
  NamedStates averages_;
};

/// Uses the averaged weights within a scope.
class [[nodiscard]] ScopedAverage {
 public:
  explicit ScopedAverage(WeightAverage& average) : average_(average) { average_.swap(); }
  ~ScopedAverage();
  ScopedAverage(const ScopedAverage&) = delete;
  ScopedAverage& operator=(const ScopedAverage&) = delete;

 private:
  WeightAverage& average_;
};

}  // namespace triaccel
