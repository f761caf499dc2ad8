#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace triaccel {

/// Tensors that are there whether saved or not: a network's parameters and buffers.
class ConstantTensors {
 public:
  explicit ConstantTensors(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {}

  /// Looks where they lie now: loading a state may have moved them.
  void look();

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
