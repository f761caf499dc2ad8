#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/core/precision.h"
#include "triaccel/layers/convolution/convolution.h"

namespace triaccel {

/// How many samples a convolution should take at a time: all of them, but for FP32 on a GPU. There
/// cuDNN turns maps around and transforms them in several times their bytes, and an FP32 layer
/// among 16-bit ones has FP32 copies of its maps besides. A part of 8 MiB fills the device and
/// keeps all that small compared with what a step saves.
std::int64_t samples_at_a_time(const at::Tensor& input, const LayerConvolution& layer);

/// convolution_forward, so many samples at a time.
at::Tensor convolution_forward_in_parts(const at::Tensor& input, const LayerConvolution& layer,
                                        at::ScalarType output, std::int64_t samples);

/// convolution_backward, so many samples at a time. The weight's gradient is added up in FP32.
LayerGradients convolution_backward_in_parts(const at::Tensor& output_gradient,
                                             const at::Tensor& input, const LayerConvolution& layer,
                                             const GradientTypes& types, std::int64_t samples);

}  // namespace triaccel
