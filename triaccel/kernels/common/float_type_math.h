#pragma once

#include <cstdint>
#include <cstring>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

TRIACCEL_HOST_DEVICE inline float float_from_bits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

TRIACCEL_HOST_DEVICE inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

TRIACCEL_HOST_DEVICE inline float bf16_to_float(std::uint16_t bits) {
  return float_from_bits(std::uint32_t{bits} << 16);
}

/// `a` where `condition` holds, else `b`, without a branch: GCC turns conditions over floats into
/// branches and then gives up vectorising.
TRIACCEL_HOST_DEVICE inline std::uint32_t chosen(bool condition, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

/// To nearest even; beyond the largest BF16 to infinity.
TRIACCEL_HOST_DEVICE inline std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = bits_of_float(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40u;  // rounding could carry a NaN over to infinity
  return static_cast<std::uint16_t>(chosen((bits & 0x7fffffffu) > 0x7f800000u, nan, rounded));
}

/// Exact, subnormals included: exponent and fraction move to their FP32 place, and a multiplication
/// by 2^112 corrects the bias. Free of branches, so loops over it vectorise; CUDA has an
/// instruction.
TRIACCEL_HOST_DEVICE inline float f16_to_float(std::uint16_t bits) {
#ifdef __CUDA_ARCH__
  float converted;
  asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(bits));
  return converted;
#else
  const std::uint32_t magnitude = std::uint32_t{bits} & 0x7fffu;
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000u) << 16;
  const float finite = float_from_bits(magnitude << 13) * 0x1.0p112f;
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;  // infinity or NaN
  return float_from_bits(chosen(magnitude >= 0x7c00u, special, bits_of_float(finite)) | sign);
#endif
}

/// To nearest even, subnormals included; from 65520 on to infinity.
TRIACCEL_HOST_DEVICE inline std::uint16_t float_to_f16(float value) {
#ifdef __CUDA_ARCH__
  std::uint16_t converted;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(converted) : "f"(value));
  return converted;
#else
  const std::uint32_t sign = (bits_of_float(value) & 0x80000000u) >> 16;
  const std::uint32_t bits = bits_of_float(value) & 0x7fffffffu;
  const std::uint32_t normal = (bits - (112u << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
  // The last bit of a float in [0.5, 1) is worth 2^-24, as that of a subnormal FP16: adding 0.5
  // rounds as wanted.
  const std::uint32_t small = bits_of_float(float_from_bits(bits) + 0.5f) - 0x3f000000u;
  const std::uint32_t finite = chosen(bits < (113u << 23), small, normal);
  const std::uint32_t special = chosen(bits > 0x7f800000u, 0x7e00u, 0x7c00u);
  return static_cast<std::uint16_t>(sign | chosen(bits >= 0x477ff000u, special, finite));
#endif
}

/// How a float is stored as `type` and read back; word() rounds to nearest even. kSaturation: the
/// FP32 bits of the largest magnitude a finite gradient keeps there; only FP16's is less than
/// infinity, the one range that gradients leave.
template <FloatType type>
struct StoredAs;

template <>
struct StoredAs<FloatType::F32> {
  using Word = float;
  TRIACCEL_HOST_DEVICE static float value(Word word) { return word; }
  TRIACCEL_HOST_DEVICE static Word word(float value) { return value; }
  static constexpr std::uint32_t kSaturation = 0x7f800000u;
};
template <>
struct StoredAs<FloatType::Bf16> {
  using Word = std::uint16_t;
  TRIACCEL_HOST_DEVICE static float value(Word word) { return bf16_to_float(word); }
  TRIACCEL_HOST_DEVICE static Word word(float value) { return float_to_bf16(value); }
  static constexpr std::uint32_t kSaturation = 0x7f800000u;
};
template <>
struct StoredAs<FloatType::F16> {
  using Word = std::uint16_t;
  TRIACCEL_HOST_DEVICE static float value(Word word) { return f16_to_float(word); }
  TRIACCEL_HOST_DEVICE static Word word(float value) { return float_to_f16(value); }
  static constexpr std::uint32_t kSaturation = 0x477fe000u;  // 65504
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
