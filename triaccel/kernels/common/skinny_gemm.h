#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// A layer of few outputs, such as a classifier's last: matrices [rows][features], [rows][outputs]
/// and the weight [outputs][features], all dense and of one type.
struct SkinnyGemm {
  std::int64_t rows = 0;
  std::int64_t features = 0;  // at most kMaxSkinnyFeatures
  std::int64_t outputs = 0;   // at most kMaxSkinnyOutputs
  FloatType type = FloatType::F32;
};

/// On CUDA a lane of a warp holds each output's gradient. Of more outputs libraries' products fill
/// their tiles, and tensor cores pay.
inline constexpr std::int64_t kMaxSkinnyOutputs = 32;
/// On CUDA a place in the weight is an int, and blocks lie along the features.
inline constexpr std::int64_t kMaxSkinnyFeatures = 1 << 20;

/// skinny_gemm: output = input * weight^T + bias, with bias[outputs] or null for none;
/// skinny_input_gradient: input_gradient = output_gradient * weight. Sums are FP32, in an order
/// that depends on features, outputs and alignment alone, not on the other rows; each result is
/// rounded once, the bias included. One kernel each. From memory they read and write everything
/// once; from a cache, forward reads the input once for four or eight outputs, and both the weight
/// once for one to four rows.
namespace cpu {
void skinny_gemm(const SkinnyGemm& shape, const void* input, const void* weight, const float* bias,
                 void* output);
void skinny_input_gradient(const SkinnyGemm& shape, const void* output_gradient, const void* weight,
                           void* input_gradient);
}  // namespace cpu
namespace cuda {
void skinny_gemm(const SkinnyGemm& shape, const void* input, const void* weight, const float* bias,
                 void* output, cudaStream_t stream);
void skinny_input_gradient(const SkinnyGemm& shape, const void* output_gradient, const void* weight,
                           void* input_gradient, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
