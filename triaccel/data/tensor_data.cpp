#include "triaccel/data/tensor_data.h"

#include <ATen/ATen.h>

#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {

TensorData::TensorData(at::Tensor inputs, at::Tensor targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  require(inputs_.defined() && targets_.defined() && inputs_.dim() > 0 && targets_.dim() > 0,
          "TensorData", "inputs and targets need a first dimension, of samples");
  require(inputs_.size(0) == targets_.size(0) && inputs_.size(0) > 0, "TensorData", "inputs have ",
          inputs_.size(0), " samples and targets ", targets_.size(0));
}

void TensorData::move_to(c10::Device device) {
  inputs_ = inputs_.to(device);
  targets_ = targets_.to(device);
}

Batch TensorData::gather(const at::Tensor& ids, const GatherOptions&) const {
  return {.inputs = inputs_.index_select(0, ids), .targets = targets_.index_select(0, ids)};
}

}  // namespace triaccel
