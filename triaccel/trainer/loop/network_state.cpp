#include "triaccel/trainer/loop/network_state.h"

#include <torch/torch.h>

#include "triaccel/base/error.h"
#include "triaccel/formats/safetensors.h"
#include "triaccel/ops/tensors/tensor_state.h"

namespace triaccel {
namespace {

/// Calls `visit(name, tensor)` for every parameter and buffer, shared ones once.
template <typename Visit>
void visit_tensors(const Network& network, Visit&& visit) {
  for (const auto& item : network.module->named_parameters()) visit(item.key(), item.value());
  for (const auto& item : network.module->named_buffers()) visit(item.key(), item.value());
}

}  // namespace

std::vector<StateView> network_state(const Network& network) {
  std::vector<StateView> state;
  visit_tensors(network, [&](const std::string& name, const at::Tensor& tensor) {
    state.push_back(tensor_state(name, tensor.detach()));
  });
  return state;
}

void restore_network(Network& network, const StateMap& saved) {
  const at::NoGradGuard no_grad;
  visit_tensors(network, [&](const std::string& name, const at::Tensor& tensor) {
    check_restorable(tensor, saved, name);
  });
  visit_tensors(network, [&](const std::string& name, at::Tensor tensor) {
    restore_tensor(tensor, saved, name);
  });
}

void load_weights(Network& network, const std::filesystem::path& file) {
  StateMap saved;
  for (const StateView& view : read_safetensors(file).tensors) saved.emplace(view.name, view);
  try {
    restore_network(network, saved);
  } catch (const StorageError& error) {
    throw DataError(text("[--init-from] ", file.string(), ": ", error.what(),
                         "; use the model, stem, width and classes the file was made with"));
  }
  visit_tensors(network, [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.is_floating_point() && !at::isfinite(tensor).all().item<bool>())
      throw DataError(text("[--init-from] ", file.string(), ": tensor '", name,
                           "' holds values that are not finite; choose an earlier checkpoint"));
  });
}

std::vector<ParameterRef> parameters_of(const Network& network) {
  std::vector<ParameterRef> parameters;
  for (const auto& item : network.module->named_parameters())
    if (item.value().requires_grad())
      parameters.push_back({item.key(), item.value(), network.layers.layer_of(item.key())});
  return parameters;
}

std::vector<at::Tensor> layer_weights(const Network& network) {
  const auto named = network.module->named_parameters();
  std::vector<at::Tensor> weights;
  for (const LayerInfo& layer : network.layers.layers())
    weights.push_back(named[layer.parameters.front()]);
  return weights;
}

std::vector<at::Tensor> buffers_of(const Network& network) { return network.module->buffers(); }

std::int64_t parameter_count(const Network& network) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : network.module->parameters()) count += parameter.numel();
  return count;
}

}  // namespace triaccel
