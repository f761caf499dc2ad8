#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace triaccel {

/// Knows a tensor again by its storage, its place there and its version; views that cover the same
/// memory without gaps are the same. The storage is referred to weakly: its memory may go, but its
/// address is not given to another one meanwhile.
class TensorIdentity {
 public:
  explicit TensorIdentity(const at::Tensor& tensor);
  bool is(const at::Tensor& tensor) const;

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  const void* data_;
  std::int64_t count_;
  std::vector<std::int64_t> sizes_, strides_;  // empty: dense
  at::ScalarType type_;
  std::int64_t version_;
};

/// Whether TensorIdentity can know it: a strided tensor with memory.
bool has_identity(const at::Tensor& tensor);

/// A Value for each tensor that has_identity().
template <typename Value>
class TensorMap {
 public:
  /// Null: none. Valid until the next insert().
  Value* find(const at::Tensor& tensor) {
    const auto [first, last] = entries_.equal_range(storage_of(tensor));
    for (auto at = first; at != last; ++at)
      if (at->second.first.is(tensor)) return &at->second.second;
    return nullptr;
  }

  Value& insert(const at::Tensor& tensor, Value value) {
    return entries_
        .emplace(storage_of(tensor), std::pair(TensorIdentity(tensor), std::move(value)))
        ->second.second;
  }

  void clear() { entries_.clear(); }

 private:
  static const void* storage_of(const at::Tensor& tensor) {
    return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  }

  std::unordered_multimap<const void*, std::pair<TensorIdentity, Value>> entries_;
};

/// Tensors that are there whether saved or not: a network's parameters and buffers.
class ConstantTensors {
 public:
  explicit ConstantTensors(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {}

  /// Where they lie now: loading a state may have moved them.
  void locate();

  /// Whether `tensor` is one of them, a view of one, or a cast or transposed copy of a parameter.
  bool contain(const at::Tensor& tensor) const;

  /// The number of the one that `tensor` is, as it is or turned; -1: none, or a cast copy.
  std::int64_t number_of(const at::Tensor& tensor) const;

 private:
  bool hold(const at::Tensor& tensor) const;

  std::vector<at::Tensor> tensors_;
  std::vector<const void*> storages_;  // sorted
  std::unordered_map<const void*, std::int64_t> by_address_;
};

}  // namespace triaccel
