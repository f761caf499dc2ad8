#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/core/predicted_blocks.h"
#include "triaccel/ops/compression/frequency_codec.h"

namespace triaccel {

/// Whether encode_predicted takes it: can_encode_frequency does, and it is one map.
bool can_encode_predicted(const at::Tensor& values);

/// A tensor's encoded cosine transform, blocks that resemble others encoded as what they differ
/// by: U8, as many as predicted_layout says. Unbiased with Rounding::Dither, which it always takes.
/// `saved`: 256ths of the bits that it does without. `counts`: what prediction_counts made on the
/// tensor's device, and added to; for the rest see encode_frequency.
at::Tensor encode_predicted(const at::Tensor& values, const FrequencyCoding& coding, int saved,
                            const at::Tensor& counts = {}, const at::Tensor& not_finite = {},
                            const EncodeBuffer& buffer = {});

/// A dense tensor of these sizes, strides and type, from the `coding` it was encoded with.
at::Tensor decode_predicted(const at::Tensor& encoded, at::IntArrayRef sizes,
                            at::IntArrayRef strides, at::ScalarType type,
                            const FrequencyCoding& coding, int saved);

/// Zeros to count in, int64 [4], and what they have come to, for which the host waits.
at::Tensor prediction_counts(const at::Device& device);
PredictionCounts counted_predictions(const at::Tensor& counts);

}  // namespace triaccel
