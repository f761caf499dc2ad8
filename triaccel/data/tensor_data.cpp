#include "triaccel/data/tensor_data.h"

#include <ATen/ATen.h>

#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {

TensorData::TensorData(const at::Tensor& inputs, const at::Tensor& targets) {
  require(inputs.defined() && targets.defined() && inputs.dim() > 0 && targets.dim() > 0,
          "TensorData", "inputs and targets need a first dimension, of samples");
  require(inputs.size(0) == targets.size(0) && inputs.size(0) > 0, "TensorData", "inputs have ",
          inputs.size(0), " samples and targets ", targets.size(0));
  inputs_ = StoredSamples(inputs, inputs.device());
  targets_ = StoredSamples(targets, targets.device());
}

void TensorData::move_to(const DataPlace& place) {
  StoredSamples inputs = inputs_.moved_to(place), targets = targets_.moved_to(place);
  inputs_ = std::move(inputs);
  targets_ = std::move(targets);
}

Batch TensorData::gather(const at::Tensor& ids, const GatherOptions&) const {
  return {.inputs = inputs_.tensor().index_select(0, ids),
          .targets = targets_.tensor().index_select(0, ids)};
}

}  // namespace triaccel
