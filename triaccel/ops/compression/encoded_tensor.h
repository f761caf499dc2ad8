#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace triaccel {

/// Where an encoder writes: a contiguous tensor of so many elements of a type, without values, on
/// the device of what is encoded and aligned to 16 bytes there. Null: one of its own.
using EncodeBuffer = std::function<at::Tensor(std::int64_t count, at::ScalarType type)>;

// What the operations that code dense tensors have in common.

/// Throws UsageError unless the elements of `values` fill its memory without gaps, in any order of
/// dimensions.
void check_dense(std::string_view who, const at::Tensor& values);

/// `count` elements for what `values` are encoded to.
at::Tensor allocate_encoded(const at::Tensor& values, std::int64_t count, at::ScalarType type,
                            const EncodeBuffer& buffer);

/// The tensor that `encoded` is decoded to, on its device; throws UsageError unless it is U8 of
/// `bytes` and sizes and strides leave no gaps.
at::Tensor allocate_decoded(std::string_view who, const at::Tensor& encoded, std::int64_t bytes,
                            at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

/// Where groups that are not finite are counted, null where `not_finite` is undefined.
std::int32_t* counter_of(std::string_view who, const at::Tensor& not_finite,
                         const at::Device& device);

}  // namespace triaccel
