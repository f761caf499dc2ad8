#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/compression/groups/group_codec.h"
#include "triaccel/ops/compression/codec_map.h"
#include "triaccel/ops/compression/encoded_tensor.h"

namespace triaccel {

/// A tensor in a few bits per element, a range for every 256 elements that are neighbours in
/// memory: U8 [group_bytes(elements, eighths)]. `values` are F32, BF16 or F16 and dense in any
/// order of dimensions. Of `coding`, type and count are the tensor's own; its step lies on the
/// tensor's device. Adds to `not_finite` (I32 [1], or undefined) the groups that will decode to
/// NaN.
///
/// Neither function is seen by autograd; both only enqueue, one kernel each on CUDA.
at::Tensor encode_groups(const at::Tensor& values, kernels::GroupCoding coding,
                         const at::Tensor& not_finite = {}, const EncodeBuffer& buffer = {});

/// The tensor again, with the sizes, strides and type that it had, from the `coding` it was encoded
/// with, or what `map` makes of it: where it changes anything, sizes and strides have a
/// channel_order.
at::Tensor decode_groups(const at::Tensor& encoded, at::IntArrayRef sizes, at::IntArrayRef strides,
                         at::ScalarType type, kernels::GroupCoding coding,
                         const CodecMap& map = {});

}  // namespace triaccel
