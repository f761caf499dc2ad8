#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/ops/tensor_bundle.h"
#include "triaccel/ops/update_inputs.h"

namespace triaccel {

enum class OptimizerKind { Sgd, AdamW };

constexpr std::string_view name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::Sgd:
      return "sgd";
    case OptimizerKind::AdamW:
      return "adamw";
  }
  return "";
}

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  double momentum = 0.9;       // SGD
  bool nesterov = false;       // SGD
  double weight_decay = 5e-4;  // SGD: added to the gradient; AdamW: decoupled from it
  double beta1 = 0.9;          // AdamW
  double beta2 = 0.999;        // AdamW
  double epsilon = 1e-8;       // AdamW
};

/// Applies gradients to weights in one pass over all tensors. Its state is allocated at
/// construction; states are named per parameter: "momentum/conv1.weight".
class Optimizer : public Stateful {
 public:
  /// Applies every parameter's grad() (F32, BF16 or F16) that is there now; parameters without one
  /// stay as they are, and so do those that the gate of `inputs` (GradientControl::update_inputs)
  /// holds back. Only enqueues and allocates nothing.
  virtual void update(const UpdateInputs& inputs) = 0;

  virtual std::int64_t state_bytes() const = 0;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<ParameterRef> parameters);

}  // namespace triaccel
