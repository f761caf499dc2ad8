#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/compression/block_transform.h"
#include "triaccel/kernels/compression/codec_map.h"
#include "triaccel/kernels/norm/batch_norm_math.h"

// One element of CodecMap. Both back ends call this; SiLU and GELU may differ in their last bits.
namespace triaccel::kernels {

TRIACCEL_HOST_DEVICE inline NormCoefficients codec_norm(const CodecMap& map, std::int64_t channel) {
  if (map.mean == nullptr) return {};
  return norm_coefficients(map.mean[channel], map.inverse_deviation[channel], map.weight, map.bias,
                           channel);
}

/// An element as it was before its channel was levelled.
TRIACCEL_HOST_DEVICE inline float unlevelled(float value, float lowest, float range) {
  return fused(range, value, lowest);
}

/// The norm and SiLU of an element; ReLU is applied through its mask.
TRIACCEL_HOST_DEVICE inline float codec_mapped(float x, const NormCoefficients& norm,
                                               Activation activation) {
  const float value = normalised(x, norm.mean, norm.scale, norm.bias);
  return activation == Activation::Silu ? silu(value) : value;
}

/// The norm of a row, which is an image of CodecMap.
TRIACCEL_HOST_DEVICE inline NormCoefficients codec_row_norm(const CodecMap& map, std::int64_t row,
                                                            std::int64_t channel) {
  if (map.mean == nullptr) return {};
  return norm_coefficients(map.mean[row], map.inverse_deviation[row], map.weight, map.bias,
                           channel);
}

/// Within 1e-7; for the CPU: free of branches and calls, so that loops over it vectorise.
inline float error_function(float x) {
  const float t = __builtin_fabsf(x), square = x * x;
  float near = -5.96761703e-4f;
  near = near * square + 4.99119423e-3f;
  near = near * square - 2.67681349e-2f;
  near = near * square + 1.12819925e-1f;
  near = near * square - 3.76125336e-1f;
  near = near * square + 1.28379166e-1f;
  near = near * x + x;
  float far = -1.72853470e-5f * t + 3.83197126e-4f;
  far = far * square + (-3.88396438e-3f * t + 2.42546219e-2f);
  far = far * t - 1.06777877e-1f;
  far = far * t - 6.34846687e-1f;
  far = far * t - 1.28717512e-1f;
  far = __builtin_copysignf(1.0f - exponential(far * t - t), x);
  return t > 0.921875f ? far : near;
}

#ifdef __CUDACC__
/// x * Phi(x) within 4e-7, in 13 instructions. Phi(-|x|) is a polynomial in 1 / (1 + |x| / 4.32),
/// times e^(-x^2 / 2) (Abramowitz and Stegun, 7.1.26); that of the other side is one less it.
__device__ inline float gelu_by_tail(float x) {
  const float size = fabsf(x), root = 0.84932180f * x;  // sqrt(log2(e) / 2)
  const float t = quick_inverse(fused(0.23164190f, size, 1.0f));
  float series = fused(0.5307027145f, t, -0.7265760135f);
  series = fused(series, t, 0.7107068705f);
  series = fused(series, t, -0.142248368f);
  series = fused(series, t, 0.127414796f);
  const float tail = series * t * quick_power(root * -root);
  return fused(-size, tail, fmaxf(x, 0.0f));
}
#endif

template <Gelu form>
TRIACCEL_HOST_DEVICE inline float gelu(float x) {
  if constexpr (form == Gelu::Erf) {
#ifdef __CUDA_ARCH__
    return gelu_by_tail(x);
#else
    return x * 0.5f * (1.0f + error_function(x * 0.70710678f));
#endif
  } else if constexpr (form == Gelu::Tanh) {
    // (1 + tanh y) / 2 is the sigmoid of 2 y.
    return x * sigmoid(x * (1.59576912f + 0.0713548163f * (x * x)));
  } else {
    return x;
  }
}

TRIACCEL_HOST_DEVICE inline bool gate_opens(const std::uint32_t* gate, std::int64_t element) {
  return (gate[element / 32] >> (element % 32) & 1u) != 0;
}

/// codec_mapped with SiLU in six instructions: the norm is one multiplication with what follows
/// from the channel alone. Off in the last bits, as SiLU may be.
class NormedSilu {
 public:
  TRIACCEL_HOST_DEVICE explicit NormedSilu(const NormCoefficients& norm = {})
      : scale_(norm.scale), shift_(norm.bias - norm.mean * norm.scale) {}

  TRIACCEL_HOST_DEVICE float operator()(float x) const { return silu(fused(x, scale_, shift_)); }

 private:
  float scale_, shift_;
};

}  // namespace triaccel::kernels
