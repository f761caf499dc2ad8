#include "triaccel/step/saved_readers.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/layers/execution/layer_nodes.h"
#include "triaccel/saved/graph_walk.h"

namespace triaccel {

SavedReaders::SavedReaders(SavedTensorKeeper& keeper, const std::vector<ParameterRef>& parameters)
    : keeper_(keeper) {
  for (const ParameterRef& parameter : parameters)
    layers_[parameter.tensor.storage().data()] = parameter.layer;
}

std::int64_t SavedReaders::layer_of(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) return -1;
  const auto found = layers_.find(tensor.storage().data());
  return found == layers_.end() ? -1 : found->second;
}

std::function<at::Tensor()> SavedReaders::keep(const at::Tensor& tensor) {
  nodes_.push_back(node_under_construction());
  if (const std::int64_t layer = layer_of(tensor); layer >= 0) node_layers_[nodes_.back()] = layer;
  return keeper_.keep(tensor);
}

void SavedReaders::put_layers(SavedCensus& census, const at::Tensor& result) const {
  ensure(census.entries.size() == nodes_.size(), "the census is of the pass that was watched");
  const auto nodes = nodes_behind(result);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const auto saved = node_layers_.find(nodes_[i]);
    const auto node = nodes.find(nodes_[i]);
    census.entries[i].layer = saved != node_layers_.end() ? saved->second
                              : node != nodes.end()       ? layer_of(weight_of(*node->second))
                                                          : -1;
  }
}

}  // namespace triaccel
