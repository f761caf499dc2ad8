#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/ops/tensors/tensor_bundle.h"
#include "triaccel/ops/update/multi_tensor.h"

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

/// Format of the optimizer state.
enum class StateFormat {
  Fp32,
  Fp8,  // a quarter of the memory: see Note [State in 8 bits] in kernels/state_codec.h
};

constexpr std::string_view name_of(StateFormat format) {
  switch (format) {
    case StateFormat::Fp32:
      return "fp32";
    case StateFormat::Fp8:
      return "fp8";
  }
  return "";
}

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  StateFormat state = StateFormat::Fp32;
  double momentum = 0.9;       // SGD
  bool nesterov = false;       // SGD
  double weight_decay = 5e-4;  // SGD: added to the gradient; AdamW: decoupled from it
  double beta1 = 0.9;          // AdamW
  double beta2 = 0.999;        // AdamW
  double epsilon = 1e-8;       // AdamW
  std::uint64_t seed = 0;      // of the run: for stochastic rounding of 8-bit states
};

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
