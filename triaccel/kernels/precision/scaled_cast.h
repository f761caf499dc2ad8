#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

/// `count` elements of dense memory on each side; the two do not overlap.
struct CastArrays {
  const void* from = nullptr;
  FloatType from_type = FloatType::F32;
  void* to = nullptr;
  FloatType to_type = FloatType::F32;
  std::int64_t count = 0;
};

/// Reads device memory, so that a captured graph follows the scale.
struct CastScale {
  const float* scale = nullptr;  // a power of two; null: 1
  bool divide = false;
  float* absolute_maximum = nullptr;  // raised to the largest finite magnitude on the unscaled
                                      // side, before rounding; a divided infinity counts as
                                      // 65504 / scale; null: not wanted
};

/// to = from * scale (or from / scale), rounded to nearest even. A finite element that is too large
/// for FP16 becomes +-65504 there; infinities and NaNs stay what they are. Moves one element of
/// each type per element (F32 -> F16: 6 bytes) and nothing else: bound by memory.
namespace cpu {
void scaled_cast(const CastArrays& arrays, CastScale scale);
}
namespace cuda {
void scaled_cast(const CastArrays& arrays, CastScale scale, cudaStream_t stream);
}

/// What every element is multiplied with. Exact when dividing: the scale is a power of two.
TRIACCEL_HOST_DEVICE inline float cast_factor(CastScale scale) {
  if (scale.scale == nullptr) return 1.0f;
  return scale.divide ? 1.0f / *scale.scale : *scale.scale;
}

/// One element. `maximum` is raised by the magnitude on the unscaled side. An infinity that is
/// divided was an FP16 product too large for its scale: it counts as FP16's largest number, so that
/// the scale comes down.
template <typename From, typename To>
TRIACCEL_HOST_DEVICE inline typename To::Word cast_element(typename From::Word word, float factor,
                                                           bool divide, float& maximum) {
  const float value = From::value(word);
  const std::uint32_t scaled = bits_of_float(value * factor);
  const std::uint32_t magnitude = bits_of_float(value) & 0x7fffffffu;
  const std::uint32_t scaled_magnitude = scaled & 0x7fffffffu;
  const bool finite = magnitude < 0x7f800000u;
  const std::uint32_t recorded = chosen(divide, scaled_magnitude, magnitude);
  const bool overflowed = divide && magnitude == 0x7f800000u;
  const std::uint32_t instead = chosen(overflowed, bits_of_float(65504.0f * factor), 0u);
  const float candidate = float_from_bits(chosen(finite, recorded, instead));
  maximum = candidate > maximum ? candidate : maximum;
  const std::uint32_t limit = chosen(finite, To::kSaturation, 0x7fffffffu);
  const std::uint32_t kept = chosen(scaled_magnitude > limit, limit, scaled_magnitude);
  return To::word(float_from_bits((scaled & 0x80000000u) | kept));
}

}  // namespace triaccel::kernels
