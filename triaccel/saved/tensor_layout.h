#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace triaccel {

/// How a tensor lies in memory.
struct TensorLayout {
  explicit TensorLayout(const at::Tensor& tensor);

  /// Memory for it, without values.
  at::Tensor empty() const;

  /// What looks like it and has one element of memory: for whoever asks sizes, strides and type,
  /// and must not look further.
  at::Tensor stand_in() const;

  /// `dense`, which covers as many elements of memory, in this layout.
  at::Tensor of(const at::Tensor& dense) const;

  at::ScalarType type() const { return options.dtype().toScalarType(); }

  std::vector<std::int64_t> sizes, strides;
  at::TensorOptions options;
};

}  // namespace triaccel
