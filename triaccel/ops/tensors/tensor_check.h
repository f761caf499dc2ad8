#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel {

/// Throws UsageError, naming call, tensor and what was found, unless `tensor` is defined, strided,
/// on `device` and of `type`.
void check_tensor(std::string_view who, std::string_view name, const at::Tensor& tensor,
                  const at::Device& device, at::ScalarType type);

/// check_tensor, and contiguous with `shape`; a negative extent matches any.
void check_contiguous(std::string_view who, std::string_view name, const at::Tensor& tensor,
                      const at::Device& device, at::ScalarType type,
                      std::initializer_list<std::int64_t> shape);

/// check_tensor, and a dense channels-last map of `shape` at a multiple of `alignment` bytes.
void check_map(std::string_view who, std::string_view name, const at::Tensor& map,
               const at::Device& device, at::ScalarType type, at::IntArrayRef shape,
               std::size_t alignment = 1);

/// Whether two tensors of one shape lie in memory alike; an extent of 1 may carry any stride.
bool same_memory_order(const at::Tensor& a, const at::Tensor& b);

/// Those whose elements share no memory: others, as expanded ones, cannot be written in place.
std::vector<at::Tensor> writable_among(const std::vector<at::Tensor>& tensors);

bool is_float_type(at::ScalarType type);  // F32, BF16 or F16: what kernels compute with

/// As kernels know it; UsageError unless is_float_type.
kernels::FloatType float_type_of(std::string_view who, std::string_view name, at::ScalarType type);

}  // namespace triaccel
