#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/batch_norm_math.h"
#include "triaccel/kernels/codec_map.h"

// One element of CodecMap. Both back ends call this; SiLU and GELU may differ in their last bits.
namespace triaccel::kernels {

TRIACCEL_HOST_DEVICE inline NormCoefficients codec_norm(const CodecMap& map, std::int64_t channel) {
  if (map.mean == nullptr) return {};
  return norm_coefficients(map.mean[channel], map.inverse_deviation[channel], map.weight, map.bias,
                           channel);
}

/// The norm and SiLU of an element; ReLU is left to its gate.
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

/// Within 1e-7. On the CPU free of branches and calls, so that loops over it vectorise.
TRIACCEL_HOST_DEVICE inline float error_function(float x) {
#ifdef __CUDA_ARCH__
  return erff(x);
#else
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
#endif
}

template <Gelu form>
TRIACCEL_HOST_DEVICE inline float gelu(float x) {
  if constexpr (form == Gelu::Erf) {
    return x * 0.5f * (1.0f + error_function(x * 0.70710678f));
  } else if constexpr (form == Gelu::Tanh) {
    // (1 + tanh y) / 2 is the sigmoid of 2 y.
    return x * sigmoid(2.0f * 0.79788456f * (x + 0.044715f * x * x * x));
  } else {
    return x;
  }
}

TRIACCEL_HOST_DEVICE inline bool gate_opens(const std::uint32_t* gate, std::int64_t element) {
  return (gate[element / 32] >> (element % 32) & 1u) != 0;
}

}  // namespace triaccel::kernels
