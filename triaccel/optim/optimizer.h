#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/ops/tensors/tensor_bundle.h"
#include "triaccel/ops/update/multi_tensor.h"
#include "triaccel/optim/optimizer_options.h"

namespace triaccel {

/// Applies gradients to weights in one pass over all tensors. Its state is allocated at
/// construction; states are named per parameter: "momentum/conv1.weight". They are saved and
/// restored as FP32 in either format, so a run may be resumed in the other.
class Optimizer : public Stateful {
 public:
  /// Applies every parameter's current grad() (F32, BF16 or F16); parameters without one are
  /// unchanged, as are those blocked by the gate of `inputs` (GradientControl::update_inputs). Only
  /// enqueues work and does not allocate.
  virtual void update(const UpdateInputs& inputs) = 0;

  virtual std::int64_t state_bytes() const = 0;  // on the device
  virtual std::int64_t host_state_bytes() const { return 0; }
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<ParameterRef> parameters);

/// The optimizer of the layers with backpropagation, which may change between steps. Only these
/// have state: an added layer starts with none, and counts its steps from there; the others keep
/// theirs.
class ElasticOptimizer final : public Optimizer {
 public:
  /// Has no layers until follow() is called.
  ElasticOptimizer(const OptimizerOptions& options, std::vector<ParameterRef> parameters);

  /// Returns true if the layers changed: the states have then been reallocated. `applied_steps` of
  /// the run so far; asked only where a layer is added.
  bool follow(const std::vector<LayerPlan>& layers,
              const std::function<std::int64_t()>& applied_steps);

  void update(const UpdateInputs& inputs) override;
  std::int64_t state_bytes() const override;
  std::int64_t host_state_bytes() const override;
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  static constexpr std::int64_t kNoState = -1;
  /// By layer: applied steps before it was added, or kNoState.
  using Begun = std::vector<std::int64_t>;

  /// Layers that were added at the same time.
  struct Part {
    std::int64_t begun_after;
    std::unique_ptr<Optimizer> optimizer;
  };

  std::vector<Part> parts_of(const Begun& begun) const;

  OptimizerOptions options_;
  std::vector<ParameterRef> parameters_;
  Begun begun_;
  std::vector<Part> parts_;
};

}  // namespace triaccel
