#include "triaccel/trainer/loop/network_state.h"

#include <torch/torch.h>

#include <algorithm>
#include <unordered_set>

#include "triaccel/base/error.h"
#include "triaccel/formats/safetensors.h"
#include "triaccel/ops/tensors/tensor_state.h"

namespace triaccel {
namespace {

using NamedTensors = torch::OrderedDict<std::string, at::Tensor>;

/// Without what is registered once more, under another name.
std::vector<NamedTensors::Item> each_once(const NamedTensors& named) {
  std::unordered_set<const void*> seen;
  std::vector<NamedTensors::Item> once;
  for (const auto& item : named)
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) once.push_back(item);
  return once;
}

/// Calls `visit(name, tensor)` for every parameter and buffer, shared ones once.
template <typename Visit>
void visit_tensors(const Network& network, Visit&& visit) {
  for (const auto& item : each_once(network.module->named_parameters()))
    visit(item.key(), item.value());
  for (const auto& item : each_once(network.module->named_buffers()))
    visit(item.key(), item.value());
}

std::string shape_of(const std::vector<std::int64_t>& shape) {
  std::string all = "[";
  for (const std::int64_t size : shape) all += text(all.size() > 1 ? ", " : "", size);
  return all + "]";
}

/// The weight of the last layer, where `saved` has one for another number of classes: as many
/// inputs, other outputs. Null where the head fits or does not match in other ways.
const StateView* other_head(const Network& network, const StateMap& saved) {
  const std::string& name = network.layers.layers().back().parameters.front();
  const auto found = saved.find(name);
  if (found == saved.end()) return nullptr;
  const at::IntArrayRef here = network.module->named_parameters()[name].sizes();
  const std::vector<std::int64_t>& there = found->second.shape;
  const bool inputs_match = here.size() == there.size() && here.size() >= 2 &&
                            std::equal(here.begin() + 1, here.end(), there.begin() + 1);
  return inputs_match && here[0] != there[0] ? &found->second : nullptr;
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

std::string load_weights(Network& network, const std::filesystem::path& file, bool new_head) {
  StateMap saved;
  for (const StateView& view : read_safetensors(file).tensors) saved.emplace(view.name, view);
  std::string notice;
  if (const StateView* const head = other_head(network, saved)) {
    const LayerInfo& layer = network.layers.layers().back();
    const auto parameters = network.module->named_parameters();
    const std::vector<std::int64_t> here = parameters[layer.parameters.front()].sizes().vec();
    const std::string difference =
        text("the head '", layer.name, "' has the shape ", shape_of(head->shape), " in ",
             file.string(), " and ", shape_of(here), " for this data");
    if (!new_head)
      throw DataError(text("[--init-from] ", difference,
                           "; --new-head replaces it with a new one, to be trained"));
    notice = text("--new-head: ", difference, "; it starts with new weights");
    for (const std::string& name : layer.parameters)  // its own values stand in for what is saved
      saved.insert_or_assign(name, tensor_state(name, parameters[name].detach()));
  }
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
  return notice;
}

std::vector<ParameterRef> parameters_of(const Network& network) {
  std::vector<ParameterRef> parameters;
  for (const auto& item : each_once(network.module->named_parameters()))
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

std::vector<at::Tensor> buffers_of(const Network& network) {
  std::vector<at::Tensor> buffers;
  for (const auto& item : each_once(network.module->named_buffers()))
    buffers.push_back(item.value());
  return buffers;
}

std::int64_t parameter_count(const Network& network) {
  std::int64_t count = 0;
  for (const auto& item : each_once(network.module->named_parameters()))
    count += item.value().numel();
  return count;
}

}  // namespace triaccel
