#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/saved/saved_tensor_engine.h"
#include "triaccel/saved/tensor_identity.h"

namespace triaccel {

/// What a census knows of a saved tensor before it is classed.
struct SavedFacts {
  std::string_view consumer = {};  // as SavedEntry
  std::string_view producer = {};  // as SavedEntry
  bool constant = false;           // a parameter, a buffer or a copy of one
  bool two_valued = false;         // zero or one other number, as a dropout's factors
  bool rectified = false;          // values show that a ReLU made it, whatever the producer's name
  int place = 0;                   // among the tensors its consumer saves, without constants
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> sizes = {};  // as SavedEntry
  bool per_sample = false;               // likewise
};

/// What backward reads of it, by the operator that saves it and those that made it.
SavedClass saved_class(const SavedFacts& facts);

/// Whether the operator that made a tensor leaves nothing below zero, as its name tells.
bool is_rectified(std::string_view producer);

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
