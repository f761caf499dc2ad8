#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triaccel {

/// A new tensor of type `to` (F32, BF16, F16) holding `from` times the layer's FP16 scale, or
/// divided by it; rounded to nearest even, finite values kept within +-65504 in F16. Keeps sizes
/// and memory order of dense tensors, others become contiguous. With `record_maximum` the layer's
/// output maximum is raised to the largest finite magnitude on the unscaled side (of `from`, or of
/// the quotient when `divide`).
///
/// `layer_scales` as in ops/layer_scales.h; undefined: the scale is 1 and nothing is recorded. Only
/// enqueues; autograd does not see it.
at::Tensor scaled_cast(const at::Tensor& from, at::ScalarType to, const at::Tensor& layer_scales,
                       std::int64_t layer, bool divide, bool record_maximum);

}  // namespace triaccel
