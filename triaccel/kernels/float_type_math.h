#pragma once

#include <cstdint>
#include <cstring>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/tensor_list.h"

namespace triaccel::kernels {

TRIACCEL_HOST_DEVICE inline float float_from_bits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

TRIACCEL_HOST_DEVICE inline float bf16_to_float(std::uint16_t bits) {
  return float_from_bits(std::uint32_t{bits} << 16);
}

/// Exact, subnormals included: exponent and fraction move to their FP32 place, and a multiplication
/// by 2^112 corrects the bias. Free of branches, so loops over it vectorise.
TRIACCEL_HOST_DEVICE inline float f16_to_float(std::uint16_t bits) {
  const std::uint32_t magnitude = std::uint32_t{bits} & 0x7fffu;
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000u) << 16;
  const float finite = float_from_bits(magnitude << 13) * 0x1.0p112f;
  const float special = float_from_bits((magnitude << 13) | 0x7f800000u);  // infinity or NaN
  std::uint32_t value;
  const float chosen = magnitude >= 0x7c00u ? special : finite;
  memcpy(&value, &chosen, sizeof value);
  return float_from_bits(value | sign);
}

/// Element `i` of an array stored as `type`, as a float; one type of array for each FloatType.
template <FloatType type>
struct StoredAs;

template <>
struct StoredAs<FloatType::F32> {
  using Word = float;
  TRIACCEL_HOST_DEVICE static float value(Word word) { return word; }
};
template <>
struct StoredAs<FloatType::Bf16> {
  using Word = std::uint16_t;
  TRIACCEL_HOST_DEVICE static float value(Word word) { return bf16_to_float(word); }
};
template <>
struct StoredAs<FloatType::F16> {
  using Word = std::uint16_t;
  TRIACCEL_HOST_DEVICE static float value(Word word) { return f16_to_float(word); }
};

/// Calls body(StoredAs<type>{}) for the run-time `type`: the one place where the types are listed.
template <typename Body>
TRIACCEL_HOST_DEVICE inline void with_stored_type(FloatType type, Body body) {
  switch (type) {
    case FloatType::F32:
      return body(StoredAs<FloatType::F32>{});
    case FloatType::Bf16:
      return body(StoredAs<FloatType::Bf16>{});
    case FloatType::F16:
      return body(StoredAs<FloatType::F16>{});
  }
}

}  // namespace triaccel::kernels
