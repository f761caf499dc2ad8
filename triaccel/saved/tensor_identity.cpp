#include "triaccel/saved/tensor_identity.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <string>

namespace triaccel {
namespace {

const void* storage_address(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool only_casts_or_turns(const std::string& operation) {
  return operation == "ToCopyBackward0" || operation == "TBackward0" ||
         operation == "TransposeBackward0" || operation == "PermuteBackward0" ||
         operation == "ViewBackward0";
}

/// The leaf that `tensor` is a cast or turned copy of; undefined: none.
at::Tensor leaf_behind(const at::Tensor& tensor) {
  const torch::autograd::Node* node = tensor.grad_fn().get();
  while (node != nullptr && only_casts_or_turns(node->name()))
    node = node->next_edge(0).function.get();
  const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
  return leaf == nullptr ? at::Tensor() : leaf->variable;
}

}  // namespace

bool has_identity(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage() && tensor.numel() > 0;
}

TensorIdentity::TensorIdentity(const at::Tensor& tensor)
    : storage_(tensor.storage().getWeakStorageImpl()),
      data_(tensor.const_data_ptr()),
      count_(tensor.numel()),
      type_(tensor.scalar_type()),
      version_(tensor._version()) {
  if (tensor.is_non_overlapping_and_dense()) return;
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
}

bool TensorIdentity::is(const at::Tensor& tensor) const {
  if (storage_._unsafe_get_target() != storage_address(tensor) ||
      data_ != tensor.const_data_ptr() || count_ != tensor.numel() ||
      type_ != tensor.scalar_type() || version_ != tensor._version())
    return false;
  if (tensor.is_non_overlapping_and_dense()) return strides_.empty();
  return at::IntArrayRef(sizes_) == tensor.sizes() && at::IntArrayRef(strides_) == tensor.strides();
}

void ConstantTensors::locate() {
  storages_.clear();
  by_address_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].has_storage()) continue;
    storages_.push_back(storage_address(tensors_[i]));
    by_address_.emplace(tensors_[i].const_data_ptr(), static_cast<std::int64_t>(i));
  }
  std::ranges::sort(storages_);
}

std::int64_t ConstantTensors::number_of(const at::Tensor& tensor) const {
  if (!hold(tensor)) return -1;
  const auto found = by_address_.find(tensor.const_data_ptr());
  return found == by_address_.end() ? -1 : found->second;
}

bool ConstantTensors::hold(const at::Tensor& tensor) const {
  return tensor.has_storage() && std::ranges::binary_search(storages_, storage_address(tensor));
}

bool ConstantTensors::contain(const at::Tensor& tensor) const {
  if (hold(tensor)) return true;
  const at::Tensor leaf = leaf_behind(tensor);
  return leaf.defined() && hold(leaf);
}

}  // namespace triaccel
