#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace triaccel {

/// The type in which the operands of an operator meet that takes no mixture of types. Under a plan
/// some tensors have 16 bits.
enum class CommonType {
  Widest,         // among them
  WidestOfParts,  // the same, of operators that others compute, which may belong to a layer
  First,          // of the first, which the operator writes into
  Fp32,  // or wider: as under autocast, losses of 16-bit outputs, and what has no 16-bit kernels
};

/// Names in libtorch's namespace aten.
const std::vector<const char*>& operators_in(CommonType type);

/// Converts the floating tensors among the operator's arguments, the last on the stack.
void bring_together(const c10::OperatorHandle& op, torch::jit::Stack& stack, CommonType type);

}  // namespace triaccel
