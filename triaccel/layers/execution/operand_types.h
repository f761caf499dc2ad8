#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace triaccel {

/// The type in which operands of two types meet.
inline at::ScalarType wider(at::ScalarType a, at::ScalarType b) { return c10::promoteTypes(a, b); }

inline std::optional<at::Tensor> as_type(const std::optional<at::Tensor>& tensor,
                                         at::ScalarType type) {
  return tensor && tensor->defined() ? std::optional<at::Tensor>(tensor->to(type)) : std::nullopt;
}

}  // namespace triaccel
