#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/predicted_codec.h"
#include "triaccel/ops/frequency_codec.h"

namespace triaccel {

/// Whether encode_predicted takes it: codes_frequency does, it is one map and lies on the CPU.
bool codes_predicted(const at::Tensor& values);

/// The codes of a tensor's cosine transform, blocks that resemble earlier ones coded as what they
/// differ by: U8, of a size that follows from the values. Unbiased with Rounding::Dither, which it
/// always takes. `counts` are added to; for the rest see encode_frequency.
at::Tensor encode_predicted(const at::Tensor& values, const FrequencyCoding& coding,
                            kernels::PredictionCounts& counts, const at::Tensor& not_finite = {});

/// A dense tensor of these sizes, strides and type, from the `coding` it was coded with.
at::Tensor decode_predicted(const at::Tensor& codes, at::IntArrayRef sizes, at::IntArrayRef strides,
                            at::ScalarType type, const FrequencyCoding& coding);

}  // namespace triaccel
