#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "triaccel/core/state_view.h"
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

  virtual std::int64_t state_bytes() const = 0;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<ParameterRef> parameters);

}  // namespace triaccel
