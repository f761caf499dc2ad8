#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "triaccel/kernels/precision/layer_scale.h"

namespace triaccel {

// Layer scales are an F32 tensor [layers, 4] in device memory, one kernels::LayerScale a row:
// scale, output maximum of this step, recent maximum, reserved. An undefined tensor means that
// every scale is 1.

/// All scales 1, no maximum yet.
at::Tensor make_layer_scales(at::Device device, std::int64_t layer_count);

/// The rows as kernels take them, null for an undefined tensor; UsageError unless they lie on
/// `device` and are at least `layer_count`.
kernels::LayerScale* layer_scales_of(std::string_view who, const at::Tensor& layer_scales,
                                     const at::Device& device, std::int64_t layer_count);

}  // namespace triaccel
