#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace triaccel {

/// Allocates the output of an encoder: an uninitialized, contiguous tensor of `count` elements on
/// the device of the values, aligned to 16 bytes. Null: the encoder allocates it.
using EncodeBuffer = std::function<at::Tensor(std::int64_t count, at::ScalarType type)>;

// Shared by all operations that encode dense tensors.

/// Throws UsageError unless the elements of `values` fill its memory without gaps, in any order of
/// dimensions.
void check_dense(std::string_view who, const at::Tensor& values);

/// The output of an encoder of `values`, from `buffer` or newly allocated.
at::Tensor allocate_encoded(const at::Tensor& values, std::int64_t count, at::ScalarType type,
                            const EncodeBuffer& buffer);

/// The output of a decoder, on the device of `encoded`. Throws UsageError unless `encoded` is U8 of
/// `bytes`, and sizes and strides leave no gaps.
at::Tensor allocate_decoded(std::string_view who, const at::Tensor& encoded, std::int64_t bytes,
                            at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

/// The counter of non-finite groups; null if `not_finite` is undefined.
std::int32_t* counter_of(std::string_view who, const at::Tensor& not_finite,
                         const at::Device& device);

}  // namespace triaccel
