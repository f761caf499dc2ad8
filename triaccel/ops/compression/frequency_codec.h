#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "triaccel/core/saved_plan.h"
#include "triaccel/kernels/compression/dither.h"
#include "triaccel/ops/compression/codec_map.h"
#include "triaccel/ops/compression/encoded_tensor.h"

namespace triaccel {

/// How a tensor's blocks are transformed and encoded; see SavedPlan.
struct FrequencyCoding {
  int block = 8;
  std::array<std::uint8_t, kFrequencyBands> band_eighths = {};
  kernels::Rounding rounding = kernels::Rounding::Dither;
  kernels::DitherKey key = {};  // its step lies on the tensor's device
};

/// Whether encode_frequency takes it: F32, BF16 or F16, with maps as block_maps finds them.
bool can_encode_frequency(const at::Tensor& values);

/// A tensor's cosine transform, encoded as U8 [frequency_bytes(plan, sizes)], map after map.
/// `values` may have any strides; the result does not depend on them. Adds
/// to `not_finite` (I32 [1], or undefined) the units of about 512 elements that will decode to NaN.
///
/// Neither function is seen by autograd; both only enqueue, one kernel for each map on CUDA.
at::Tensor encode_frequency(const at::Tensor& values, const FrequencyCoding& coding,
                            const at::Tensor& not_finite = {}, const EncodeBuffer& buffer = {});

/// A dense tensor of these sizes, strides and type, from the `coding` it was encoded with, or what
/// `map` makes of it: where it changes anything, sizes and strides have a channel_order.
at::Tensor decode_frequency(const at::Tensor& encoded, at::IntArrayRef sizes,
                            at::IntArrayRef strides, at::ScalarType type, FrequencyCoding coding,
                            const CodecMap& map = {});

}  // namespace triaccel
