#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// One direction of a depthwise convolution. Output o reads inputs o * stride - padding + tap, for
/// taps 0 up to the filter's extent; zeros lie outside the map.
struct DepthwiseAxis {
  std::int64_t input = 1;
  std::int64_t output = 1;
  std::int64_t padding = 0;  // less than the filter's extent
};

/// A depthwise convolution of maps that lie [image][row][column][channel], dense, at addresses that
/// are multiples of eight; fewer than 2^31 pixels in each. Filters are FP32 [channel][tap row][tap
/// column], and are rounded to the maps' type as they are read. Sums are FP32.
struct DepthwiseShape {
  std::int64_t images = 0;
  std::int64_t channels = 0;
  DepthwiseAxis rows = {};
  DepthwiseAxis columns = {};
  int filter = 3;  // extent of the square filter: 3 or 5
  int stride = 1;  // 1 or 2
  FloatType type = FloatType::F32;
};

/// FP32 numbers of scratch that cuda::depthwise_weight_gradient needs; a function of the shape.
std::int64_t depthwise_scratch(const DepthwiseShape& shape);

/// depthwise_forward reads the input map and writes the output map, input_gradient the reverse,
/// weight_gradient reads both: each once, whatever the filter, so that all are bound by memory
/// (filter 3) or by memory and FP32 arithmetic alike (filter 5). All write every element of their
/// result, in an order of additions that depends on the shape alone.
namespace cpu {
void depthwise_forward(const DepthwiseShape& shape, const void* input, const float* weight,
                       void* output);
void depthwise_input_gradient(const DepthwiseShape& shape, const void* output_gradient,
                              const float* weight, void* input_gradient);
void depthwise_weight_gradient(const DepthwiseShape& shape, const void* output_gradient,
                               const void* input, float* weight_gradient);
}  // namespace cpu
namespace cuda {
void depthwise_forward(const DepthwiseShape& shape, const void* input, const float* weight,
                       void* output, cudaStream_t stream);
void depthwise_input_gradient(const DepthwiseShape& shape, const void* output_gradient,
                              const float* weight, void* input_gradient, cudaStream_t stream);
void depthwise_weight_gradient(const DepthwiseShape& shape, const void* output_gradient,
                               const void* input, float* scratch, float* weight_gradient,
                               cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
