#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/compression/nonzeros/nonzero_codec.h"
#include "triaccel/ops/compression/encoded_tensor.h"

namespace triaccel {

/// A tensor of which only the elements with a bit are stored.
struct EncodedNonZeros {
  at::Tensor mask;     // as encode_mask makes it
  at::Tensor records;  // U8 [nonzero_bytes(elements, eighths)]
};

/// `values` are F32, BF16 or F16 and dense in any order of dimensions. Of `coding`, type and count
/// are the tensor's own; its step lies on the tensor's device. Codes the elements that `mask` has
/// bits for, or, where it is undefined, those that are not zero, and makes their mask. Adds to
/// `not_finite` (I32 [1], or undefined) the groups that will decode to NaN.
///
/// Neither function is seen by autograd; both only enqueue, one kernel each on CUDA.
EncodedNonZeros encode_nonzeros(const at::Tensor& values, kernels::NonZeroCoding coding,
                                const at::Tensor& mask = {}, const at::Tensor& not_finite = {},
                                const EncodeBuffer& buffer = {});

/// The tensor again, with the sizes, strides and type that it had, from the `coding` it was encoded
/// with; zero where the mask has no bit.
at::Tensor decode_nonzeros(const EncodedNonZeros& encoded, at::IntArrayRef sizes,
                           at::IntArrayRef strides, at::ScalarType type,
                           kernels::NonZeroCoding coding);

}  // namespace triaccel
