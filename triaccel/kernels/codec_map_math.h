#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/batch_norm_math.h"
#include "triaccel/kernels/codec_map.h"

// One element of CodecMap. Both back ends call this; SiLU alone may differ in its last bits.
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

TRIACCEL_HOST_DEVICE inline bool gate_opens(const std::uint32_t* gate, std::int64_t element) {
  return (gate[element / 32] >> (element % 32) & 1u) != 0;
}

}  // namespace triaccel::kernels
