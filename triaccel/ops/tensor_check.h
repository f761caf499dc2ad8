#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "triaccel/kernels/tensor_list.h"

namespace triaccel {

/// Throws UsageError, naming call, tensor and what was found, unless `tensor` is defined, strided,
/// on `device` and of `type`.
void check_tensor(std::string_view who, std::string_view name, const at::Tensor& tensor,
                  const at::Device& device, at::ScalarType type);

/// check_tensor, and contiguous with `shape`; a negative extent matches any.
void check_contiguous(std::string_view who, std::string_view name, const at::Tensor& tensor,
                      const at::Device& device, at::ScalarType type,
                      std::initializer_list<std::int64_t> shape);

/// Whether two tensors of one shape lie in memory alike; an extent of 1 may carry any stride.
bool same_memory_order(const at::Tensor& a, const at::Tensor& b);

/// F32, BF16 or F16 as kernels know it; UsageError for any other type.
kernels::FloatType float_type_of(std::string_view who, std::string_view name, at::ScalarType type);

}  // namespace triaccel
