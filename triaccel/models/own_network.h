#pragma once

#include <memory>
#include <string>
#include <utility>

#include "triaccel/models/network.h"

namespace triaccel {

/// A user's own module as a Network. `M` derives from torch::nn::Module, has Tensor forward(Tensor)
/// and registers its children in the order in which forward uses them. Include <torch/nn.h> too.
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
