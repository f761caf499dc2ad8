#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/common/window_axis.h"

namespace triaccel::kernels {

/// A convolution over dense images of few channels, the first of a network. Images and weights are
/// rounded to `type` as they are read, sums are FP32. Weights are FP32 [filter][tap row][tap
/// column][channel]; maps of the output are of `type`, [image][row][column][filter], dense, at
/// addresses that are multiples of 16. Fewer than 2^30 windows and numbers in an image.
struct StemConvolutionShape {
  std::int64_t images = 0;
  std::int64_t channels = 3;  // at most kMaxStemChannels
  std::int64_t filters = 8;   // a multiple of 8
  WindowAxis rows = {};       // together at most kMaxStemTaps taps
  WindowAxis columns = {};
  bool channels_last = true;  // images [row][column][channel], else [channel][row][column]
  FloatType image_type = FloatType::F32;
  FloatType type = FloatType::Bf16;  // or F16
};

inline constexpr std::int64_t kMaxStemChannels = 4;
inline constexpr std::int64_t kMaxStemTaps = 64;

constexpr std::int64_t image_taps(const StemConvolutionShape& shape) {
  return shape.rows.window * shape.columns.window;
}

/// stem_convolution reads the images about once and writes the output map,
/// stem_weight_gradient reads both: each once, and nothing of the size of either besides. Both
/// write every element of their result, in an order of additions that depends on the shape alone.
/// Padding meets zeros.
namespace cpu {
void stem_convolution(const StemConvolutionShape& shape, const void* images, const float* weight,
                      void* output);
void stem_weight_gradient(const StemConvolutionShape& shape, const void* output_gradient,
                          const void* images, float* weight_gradient);
}  // namespace cpu
/// For shapes that cut_stem_tiles cuts, where has_stem_convolution(): chips from compute
/// capability 8.0 on. stem_weight_gradient needs stem_scratch(shape) numbers of scratch.
namespace cuda {
bool has_stem_convolution();
void stem_convolution(const StemConvolutionShape& shape, const void* images, const float* weight,
                      void* output, cudaStream_t stream);
void stem_weight_gradient(const StemConvolutionShape& shape, const void* output_gradient,
                          const void* images, float* scratch, float* weight_gradient,
                          cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
