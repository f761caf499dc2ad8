#pragma once

#include <torch/torch.h>

#include <cstring>
#include <initializer_list>
#include <vector>

#include "triaccel/data/load_data.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/step/step_runner.h"

namespace triaccel {

/// The network as a StepRunner takes it, without the layers' weights.
inline StepNetwork step_network(const Network& network) {
  StepNetwork parts{.forward = network.forward, .layer_count = network.layers.size()};
  for (const auto& item : network.module->named_parameters())
    parts.parameters.push_back({item.key(), item.value(), network.layers.layer_of(item.key())});
  parts.buffers = network.module->buffers();
  return parts;
}

/// Every byte a step may change: parameters, buffers, what `parts` keep (null: nothing), generator.
inline std::vector<at::Tensor> step_state(const Network& network,
                                          std::initializer_list<const Stateful*> parts) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : network.module->parameters())
    all.push_back(tensor.detach().clone());
  for (const at::Tensor& tensor : network.module->buffers()) all.push_back(tensor.clone());
  for (const Stateful* part : parts) {
    if (part == nullptr) continue;
    for (const StateView& view : part->state()) {
      at::Tensor bytes = at::empty({static_cast<std::int64_t>(view.bytes.size())}, at::kByte);
      std::memcpy(bytes.data_ptr(), view.bytes.data(), view.bytes.size());
      all.push_back(bytes);
    }
  }
  all.push_back(at::globalContext().defaultGenerator(c10::Device(c10::kCPU)).get_state());
  return all;
}

inline const Dataset& synthetic_samples() {
  static const LoadedData loaded = load_data({.name = "synthetic"}, c10::Device(c10::kCPU));
  return *loaded.train;
}

}  // namespace triaccel
