#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/ops/tensors/tensor_bundle.h"
#include "triaccel/saved/saved_tensor_engine.h"

namespace triaccel {

/// Hands every tensor on to `keeper` and remembers who saved it: which layers read what a pass
/// saves. A reader belongs to the layer whose parameter it saves, too, or is a node of the layer;
/// one that knows no parameter, or only a copy in another type, belongs to none.
class SavedReaders final : public SavedTensorKeeper {
 public:
  SavedReaders(SavedTensorKeeper& keeper, const std::vector<ParameterRef>& parameters);

  std::function<at::Tensor()> keep(const at::Tensor& tensor) override;

  /// Writes the readers' layers into the census of the same pass, whose graph must still be there.
  void put_layers(SavedCensus& census, const at::Tensor& result) const;

 private:
  /// -1: no parameter of the network.
  std::int64_t layer_of(const at::Tensor& tensor) const;

  SavedTensorKeeper& keeper_;
  std::unordered_map<const void*, std::int64_t> layers_;         // by storage of a parameter
  std::vector<std::uint64_t> nodes_;                             // by entry
  std::unordered_map<std::uint64_t, std::int64_t> node_layers_;  // of those that saved a parameter
};

}  // namespace triaccel
