#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/compression/masks/bit_mask_codec.h"
#include "triaccel/ops/compression/encoded_tensor.h"
#include "triaccel/ops/tensors/window_geometry.h"

namespace triaccel {

/// A bit for every element, in the order of memory: I32 [mask_bytes(elements) / 4]. `values` are
/// bool, F32, BF16 or F16 and dense in any order of dimensions.
///
/// Neither function is seen by autograd; both only enqueue, one kernel each on CUDA.
at::Tensor encode_mask(const at::Tensor& values, kernels::MaskTest test,
                       const EncodeBuffer& buffer = {});

/// A tensor of the sizes and strides that were encoded: of bool, true where the bit is set, or of
/// another type, with the value there (its memory lies on the device of `words`) and zero
/// elsewhere.
at::Tensor decode_mask(const at::Tensor& words, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType type = at::kBool, kernels::MaskValue value = {});

/// The indices of at::max_pool2d_with_indices, I64 [..., H', W'] and contiguous or channels-last,
/// as places within their windows: I32 [window_bytes(elements, taps) / 4]. Exact for every index
/// that its window sees.
///
/// Neither function is seen by autograd; both only enqueue, one kernel each on CUDA.
at::Tensor encode_windows(const at::Tensor& indices, const WindowGeometry& geometry,
                          const EncodeBuffer& buffer = {});

/// The indices again, with the sizes and strides that they had.
at::Tensor decode_windows(const at::Tensor& taps, at::IntArrayRef sizes, at::IntArrayRef strides,
                          const WindowGeometry& geometry);

}  // namespace triaccel
