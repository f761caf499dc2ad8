#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/saved/saved_tensor_engine.h"
#include "triaccel/saved/tensor_identity.h"

namespace triaccel {

/// Watches one forward pass, in which every tensor is kept as it is.
///
///   SavedProfile profile(parameters_and_buffers);
///   { SavedTensorScope scope(profile); logits = forward(inputs); }
///   SavedCensus census = profile.census(logits, batch);
class SavedProfile final : public SavedTensorKeeper {
 public:
  explicit SavedProfile(std::vector<at::Tensor> constants);
  ~SavedProfile() override;

  std::function<at::Tensor()> keep(const at::Tensor& tensor) override;

  /// Who saved what on the way to `result`, whose graph must still be there. A tensor counts as
  /// growing with the batch when `samples` divides its first size: take a number that divides no
  /// width of the network, as 11.
  SavedCensus census(const at::Tensor& result, std::int64_t samples) const;

 private:
  struct Saved;

  ConstantTensors constants_;
  TensorMap<std::int64_t> known_;  // number of the entry that saved a tensor first
  std::vector<Saved> saved_;
};

}  // namespace triaccel
