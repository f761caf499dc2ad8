#pragma once

#include <torch/torch.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "triaccel/data/load_data.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/step/step_runner.h"

namespace triaccel {

inline const c10::Device kCpu(c10::kCPU), kGpu(c10::kCUDA, 0);
inline const ModelOptions kLenet{.name = "lenet5"};
inline const ModelOptions kSlimResnet{.name = "resnet18", .width = 4};

/// The network as a StepRunner takes it, without the layers' weights.
inline StepNetwork step_network(const Network& network) {
  StepNetwork parts{.forward = network.forward, .layer_count = network.layers.size()};
  for (const auto& item : network.module->named_parameters())
    parts.parameters.push_back({item.key(), item.value(), network.layers.layer_of(item.key())});
  parts.buffers = network.module->buffers();
  return parts;
}

/// Of each layer, in their order.
inline std::vector<at::Tensor> layer_weights(const Network& network) {
  std::vector<at::Tensor> weights;
  const auto named = network.module->named_parameters();
  for (const LayerInfo& layer : network.layers.layers())
    weights.push_back(named[layer.parameters.front()]);
  return weights;
}

/// Every byte a step may change: parameters, buffers, what `parts` keep (null: nothing), generator.
inline std::vector<at::Tensor> step_state(const Network& network,
                                          std::initializer_list<const Stateful*> parts) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : network.module->parameters())
    all.push_back(tensor.detach().to(kCpu, tensor.scalar_type(), false, /*copy=*/true));
  for (const at::Tensor& tensor : network.module->buffers())
    all.push_back(tensor.to(kCpu, tensor.scalar_type(), false, /*copy=*/true));
  for (const Stateful* part : parts) {
    if (part == nullptr) continue;
    for (const StateView& view : part->state()) {
      at::Tensor bytes = at::empty({static_cast<std::int64_t>(view.bytes.size())}, at::kByte);
      std::memcpy(bytes.data_ptr(), view.bytes.data(), view.bytes.size());
      all.push_back(bytes);
    }
  }
  all.push_back(at::globalContext().defaultGenerator(kCpu).get_state());
  return all;
}

inline bool same_bytes(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].nbytes() != b[i].nbytes() ||
        std::memcmp(a[i].contiguous().data_ptr(), b[i].contiguous().data_ptr(), a[i].nbytes()) != 0)
      return false;
  return true;
}

inline const Dataset& synthetic_samples() {
  static const LoadedData loaded = load_data({.name = "synthetic"}, kCpu);
  return *loaded.train;
}

/// A network on the CPU with a runner, which whoever derives from it makes.
struct CpuStep {
  void run(std::int64_t batch, std::int64_t pass) {
    plan.batch_size = batch;
    plan.micro_batch_size = pass;
    runner->run(plan, synthetic_samples(), ids.narrow(0, 0, batch), {}, 0.01);
  }

  std::vector<at::Tensor> state() const {
    return step_state(network, {&runner->optimizer(), &runner->gradient_control()});
  }

  MemoryGauge gauge{kCpu};
  at::Tensor ids = at::arange(96);  // outside the step, whose allocations are made to fail
  Network network;
  std::unique_ptr<StepRunner> runner;
  StepPlan plan;
};

/// Everything that a pass saves goes to host memory, except what is there anyway.
inline std::vector<SavedPlan> all_on_host(const SavedCensus& census) {
  std::vector<SavedPlan> plans;
  for (const SavedEntry& entry : census.entries)
    plans.push_back(
        {.codec = entry.kind == SavedClass::Constant ? SavedCodec::Raw : SavedCodec::Host});
  return plans;
}

}  // namespace triaccel
