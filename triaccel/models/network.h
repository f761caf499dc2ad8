#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "triaccel/core/layer_registry.h"

namespace torch::nn {
class Module;
}

namespace triaccel {

/// A model as used by the trainer. Copies share the module.
struct Network {
  std::string name = {};
  std::shared_ptr<torch::nn::Module> module = {};             // parameters, buffers, train and eval
  std::function<at::Tensor(const at::Tensor&)> forward = {};  // inputs -> logits, classes last
  LayerRegistry layers = {};
};

/// The layers of a module in registration order. Each weight (convolution, linear, embedding, or
/// any registered matrix) starts a layer, which includes the biases, norms and scales that follow;
/// parameters before the first weight belong to the first layer. A parameter registered under two
/// names counts once, under the first. Throws UsageError for a module without parameters.
LayerRegistry discover_layers(const torch::nn::Module& module);

/// Wraps a user-defined module as a Network. `M` derives from torch::nn::Module, has Tensor
/// forward(Tensor) and registers its children in the order in which forward uses them. Include
/// <torch/nn.h> too.
template <class M>
Network as_network(std::shared_ptr<M> module, std::string name) {
  LayerRegistry layers = discover_layers(*module);
  auto forward = [module](const at::Tensor& inputs) -> at::Tensor {
    return module->forward(inputs);
  };
  return {.name = std::move(name),
          .module = std::move(module),
          .forward = std::move(forward),
          .layers = std::move(layers)};
}

}  // namespace triaccel
