#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/even_pixels.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

enum class Activation : std::uint8_t { None, Relu, Silu };

/// [rows, channels], dense, channels innermost: an image batch in channels-last order has
/// rows = N * H * W.
struct NormMap {
  std::int64_t rows = 0;
  std::int64_t channels = 0;
  FloatType type = FloatType::F32;
};

/// Channels whose ReLU mask bits share a byte, the first one's in its lowest bit: as many as lie in
/// 16 bytes, so that whoever reads 16 bytes of a map reads one byte of its mask. 1 where a row does
/// not divide so.
constexpr std::int64_t mask_bits_per_byte(const NormMap& map) {
  const std::int64_t wide = map.type == FloatType::F32 ? 4 : 8;
  return map.channels % wide == 0 ? wide : 1;
}
/// Bytes of a map's ReLU mask.
constexpr std::int64_t relu_mask_bytes(const NormMap& map) {
  return map.rows * map.channels / mask_bits_per_byte(map);
}

/// What makes another norm's output of that norm's input, so that it need not be stored to be
/// added. Rows of F32 [channels].
struct ResidualNorm {
  const float* mean = nullptr;  // null: the residual is added as it is
  const float* inverse_deviation = nullptr;
  const float* weight = nullptr;  // null: 1
  const float* bias = nullptr;    // null: 0
};

/// A number for every sample, which has `rows` rows of the map one after the other: how stochastic
/// depth leaves a block out (Huang et al. 2016). Of the map's type.
struct SampleFactors {
  const void* values = nullptr;  // null: 1
  std::int64_t rows = 1;
};

/// output = activation(((input - mean) * inverse_deviation * weight + bias) * factor + residual),
/// rounded once. Maps are of one type and do not overlap; a row of parameters is F32 [channels].
/// Where a ReLU mask is written or read, maps start at multiples of 16 bytes.
struct NormForward {
  NormMap map = {};
  void* output = nullptr;  // null: only statistics are wanted
  const void* input = nullptr;
  SampleFactors factors = {};      // in training; not with SiLU, nor with a residual_norm
  const void* residual = nullptr;  // null: none; not with SiLU
  ResidualNorm residual_norm = {};
  const float* weight = nullptr;  // null: 1
  const float* bias = nullptr;    // null: 0
  Activation activation = Activation::None;
  float eps = 1e-5f;
  std::uint8_t* relu_mask =
      nullptr;  // null: not kept; else where the stored output is > 0; with ReLU
};

/// What training writes besides the output. The variance inside inverse_deviation is divided by
/// rows, that of the running statistics by rows - 1.
struct NormBatchStatistics {
  float* mean = nullptr;
  float* inverse_deviation = nullptr;
  float* running_mean = nullptr;      // null: not kept; else momentum of the batch, the rest stays
  float* running_variance = nullptr;  // null: not kept
  float momentum = 0.1f;
};

/// Statistics that are there before the map is read: running ones, or those that training kept of
/// this very map, from which its output comes out as it did then, to the last bit.
struct NormKnownStatistics {
  const float* mean = nullptr;
  const float* variance = nullptr;           // null: inverse_deviation is given
  const float* inverse_deviation = nullptr;  // used only then
};

/// Gradients of training. The output's gradient is output_gradient + added_gradient, added in F32
/// and rounded to the map's type, as a separate addition leaves it. The normalised value and the
/// activation's derivative are recomputed from `input`, but for a ReLU whose mask was kept, as
/// they must be after a residual or factors. Behind those the gradient is rounded to the map's type
/// again, as a separate product leaves it. Every result may be null: not wanted.
struct NormBackward {
  NormMap map = {};
  const void* output_gradient = nullptr;
  const void* added_gradient = nullptr;  // null: none
  EvenPixels added_pixels = {};          // height > 0: added_gradient has the map's even ones alone
  const void* input = nullptr;
  SampleFactors factors = {};               // not with SiLU, with ReLU only if `relu_mask` is given
  const std::uint8_t* relu_mask = nullptr;  // null: no ReLU, or one right behind the norm
  const float* mean = nullptr;
  const float* inverse_deviation = nullptr;
  const float* weight = nullptr;  // null: 1
  const float* bias = nullptr;    // null: 0
  Activation activation = Activation::None;
  void* input_gradient = nullptr;
  void* residual_gradient = nullptr;  // the output's gradient, after ReLU where its mask is set;
                                      // not with SiLU, with ReLU only if `relu_mask` is given
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
};

/// Sums are FP32 around a value of the data (a mean far from zero costs no digits), added in an
/// order that depends on the shape and the chip alone: the same input gives the same bits.
///
/// Bytes a map moves, in units of its own size:
///   one kernel (a map of few MB, kept in registers): forward 2, with residual 3; backward 3 (dz, x
///   -> dx), after ReLU with residual 4 (dz, x -> dx, dresidual), an added gradient 1 more.
///   two kernels (larger maps): forward 3, with residual 4; backward 5, after ReLU with residual 6;
///   an added gradient 1 more where a residual's gradient is written, else 2 more.
///   A residual that another norm makes on the way saves the 2 of storing it first. Inference: 2,
///   with residual 3. Gates take a sixteenth each time they are written or read.
namespace cpu {
void batch_norm_train(const NormForward& params, const NormBatchStatistics& statistics);
void batch_norm_infer(const NormForward& params, NormKnownStatistics statistics);
void batch_norm_backward(const NormBackward& params);
}  // namespace cpu
namespace cuda {
/// Bytes of `scratch` for training and backward on the current device; its contents matter neither
/// before nor after, and it need only be aligned as a float2.
std::int64_t batch_norm_scratch_bytes(const NormMap& map);
void batch_norm_train(const NormForward& params, const NormBatchStatistics& statistics,
                      void* scratch, cudaStream_t stream);
void batch_norm_infer(const NormForward& params, NormKnownStatistics statistics,
                      cudaStream_t stream);
void batch_norm_backward(const NormBackward& params, void* scratch, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
