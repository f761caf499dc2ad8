#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "triaccel/kernels/precision/layer_scale.h"

namespace triaccel {

// Layer scales are an F32 tensor [layers, 4] in device memory, one kernels::LayerScale per row:
// scale, output maximum of this step, recent maximum, reserved. An undefined tensor means that
// every scale is 1.

/// All scales 1, no maximum yet.
at::Tensor make_layer_scales(at::Device device, std::int64_t layer_count);

/// The rows as kernels take them, null for an undefined tensor; UsageError unless they lie on
/// `device` and are at least `layer_count`.
kernels::LayerScale* layer_scales_of(std::string_view who, const at::Tensor& layer_scales,
                                     const at::Device& device, std::int64_t layer_count);

/// A new tensor of type `to` (F32, BF16, F16) holding `from` times the layer's FP16 scale, or
/// divided by it; rounded to nearest even, finite values kept within +-65504 in F16. Keeps sizes
/// and memory order of dense tensors, others become contiguous. With `record_maximum` the layer's
/// output maximum is raised to the largest finite magnitude on the unscaled side (of `from`, or of
/// the quotient when `divide`).
///
/// Without `layer_scales` the scale is 1 and nothing is recorded. Only enqueues; autograd does not
/// see it.
at::Tensor scaled_cast(const at::Tensor& from, at::ScalarType to, const at::Tensor& layer_scales,
                       std::int64_t layer, bool divide, bool record_maximum);

}  // namespace triaccel
