#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "triaccel/core/layer_registry.h"

namespace torch::nn {
class Module;
}

namespace triaccel {

/// A network as the trainer sees it. Copies share the module.
struct Network {
  std::string name = {};
  std::shared_ptr<torch::nn::Module> module = {};             // parameters, buffers, train and eval
  std::function<at::Tensor(const at::Tensor&)> forward = {};  // inputs -> logits, classes last
  LayerRegistry layers = {};
};

/// The layers of any module in registration order. A layer opens at each weight (of a convolution,
/// linear map or embedding, or any matrix a user registered) and takes the biases, norms and scales
/// that follow it; what stands before the first weight goes to the first layer. A parameter tensor
/// registered under two names counts once, under the first. Throws UsageError for a module without
/// parameters.
LayerRegistry discover_layers(const torch::nn::Module& module);

}  // namespace triaccel
