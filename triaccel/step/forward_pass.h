#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triaccel/layers/execution/layer_execution.h"
#include "triaccel/ops/tensors/tensor_bundle.h"

namespace triaccel {

/// The network as one step sees it.
struct StepNetwork {
  std::function<at::Tensor(const at::Tensor&)> forward = {};  // inputs -> logits, classes last
  std::vector<ParameterRef> parameters = {};
  std::vector<at::Tensor> others = {};  // parameters that get gradients, but are not measured
  std::vector<at::Tensor> buffers = {};
  std::int64_t layer_count = 0;
  std::vector<at::Tensor> weights = {};  // of each layer; needed to run layers by their plans
};

/// Parameters and buffers: what a pass saves of them costs nothing.
std::vector<at::Tensor> constants_of(const StepNetwork& network);

/// How forward passes compute, in training and in evaluation alike.
struct ForwardRules {
  bool autocast = false;                     // the whole pass under torch's autocast …
  at::ScalarType autocast_type = at::kHalf;  // … to this type
  LayerExecution* layers = nullptr;          // or every layer as its plan says
};

/// A forward function on this kind of device by those rules.
at::Tensor forward_pass(const std::function<at::Tensor()>& forward, c10::DeviceType device,
                        const ForwardRules& rules);

/// `forward(inputs)` by those rules. The result has the type that flows between layers.
at::Tensor forward_pass(const std::function<at::Tensor(const at::Tensor&)>& forward,
                        const at::Tensor& inputs, const ForwardRules& rules);

}  // namespace triaccel
