#pragma once

#include <cstdint>

#include "triaccel/kernels/cuda_stream.h"
#include "triaccel/kernels/tensor_list.h"
#include "triaccel/kernels/window_axis.h"

namespace triaccel::kernels {

/// A convolution of maps [sample][row][column][channel] with weights
/// [filter][tap row][tap column][channel], all dense, of one 16-bit type and at multiples of 16
/// bytes. Channels and filters are multiples of kMapChannels; fewer than 2^22 pixels of a map, and
/// numbers of a sample and of the weights.
struct MapConvolutionShape {
  std::int64_t samples = 0;
  std::int64_t channels = 64;
  std::int64_t filters = 64;
  WindowAxis rows = {};
  WindowAxis columns = {};
  FloatType type = FloatType::Bf16;  // or F16
};

inline constexpr std::int64_t kMapChannels = 64;

/// Sums are FP32, in an order that depends on the shape alone; results are rounded once. Padding
/// meets zeros. map_input_gradient is for strides of 1.
///
/// On CUDA, from compute capability 9.0 on, one kernel each, for maps so small that others leave
/// most of the chip idle, and that cut_map_product cuts: into tiles of 64 x 64, whose sums the
/// blocks of a cluster share where there are few.
namespace cpu {
void map_convolution(const MapConvolutionShape& shape, const void* map, const void* weight,
                     void* output);
void map_input_gradient(const MapConvolutionShape& shape, const void* output_gradient,
                        const void* weight, void* input_gradient);
}  // namespace cpu
namespace cuda {
/// Whether the current device has clusters and the shared memory for all cuts.
bool has_map_convolution();
void map_convolution(const MapConvolutionShape& shape, const void* map, const void* weight,
                     void* output, cudaStream_t stream);
void map_input_gradient(const MapConvolutionShape& shape, const void* output_gradient,
                        const void* weight, void* input_gradient, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
