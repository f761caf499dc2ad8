#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "triaccel/layers/execution/layer_execution.h"

namespace triaccel {

/// How forward passes compute, in training and in evaluation alike.
struct ForwardRules {
  bool autocast = false;                     // the whole pass under torch's autocast …
  at::ScalarType autocast_type = at::kHalf;  // … to this type
  LayerExecution* layers = nullptr;          // or every layer as its plan says
};

/// `forward(inputs)` by those rules. The result has the type that flows between layers.
at::Tensor forward_pass(const std::function<at::Tensor(const at::Tensor&)>& forward,
                        const at::Tensor& inputs, const ForwardRules& rules);

}  // namespace triaccel
