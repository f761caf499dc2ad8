#pragma once

#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/gradient_moments.h"
#include "triaccel/kernels/layer_scale_math.h"

namespace triaccel::kernels {

/// Elements summed in FP32 before FP64 takes over: few enough that the rounding does not show.
inline constexpr int kElementsPerLane = 16;

/// How the stored elements of one tensor turn into gradients.
struct GradientScales {
  float unscale = 1;  // stored -> gradient
  float to_fp16 = 1;  // stored -> what FP16 would hold
};

TRIACCEL_HOST_DEVICE inline GradientScales gradient_scales(MomentsScales scales, std::int32_t layer,
                                                           FloatType type) {
  const float carried = carried_scale(scales.scales, layer, type);
  const float layer_scale = scales.scales != nullptr ? scales.scales[layer].scale : 1.0f;
  return {1.0f / (*scales.loss_scale * carried), layer_scale / carried};
}

/// Adds one stored element to a lane's FP32 sums. Masks instead of conditions: loops over it
/// vectorise.
TRIACCEL_HOST_DEVICE inline void add_element(float stored, GradientScales scales, float& sum,
                                             float& sum_of_squares, float& absolute_maximum,
                                             std::int32_t& nonfinite, std::int32_t& fp16_zeros,
                                             std::int32_t& fp16_subnormals) {
  const std::uint32_t bits = bits_of_float(stored);
  const std::int32_t finite = (bits & 0x7fffffffu) < 0x7f800000u;
  const float kept = float_from_bits(bits & (0u - static_cast<std::uint32_t>(finite)));
  const float value = kept * scales.unscale;
  const float magnitude = fabsf(value);
  const float in_fp16 = fabsf(kept) * scales.to_fp16;
  sum += value;
  sum_of_squares += value * value;
  absolute_maximum = magnitude > absolute_maximum ? magnitude : absolute_maximum;
  nonfinite += 1 - finite;
  fp16_zeros += (kept != 0.0f) & (in_fp16 <= 0x1.0p-25f);
  fp16_subnormals += (in_fp16 > 0x1.0p-25f) & (in_fp16 < 0x1.0p-14f);
}

/// Adds what the two have in common; the fields of a chunk are narrower.
template <typename Moments, typename Part>
TRIACCEL_HOST_DEVICE inline void add_moments(Moments& all, const Part& part) {
  all.count += part.count;
  all.sum += part.sum;
  all.sum_of_squares += part.sum_of_squares;
  all.nonfinite += part.nonfinite;
  all.fp16_zeros += part.fp16_zeros;
  all.fp16_subnormals += part.fp16_subnormals;
  if (part.absolute_maximum > all.absolute_maximum) all.absolute_maximum = part.absolute_maximum;
}

TRIACCEL_HOST_DEVICE inline LayerMoments no_moments(MomentsScales scales, std::int64_t layer) {
  LayerMoments moments;
  moments.fp16_scale =
      *scales.loss_scale * (scales.scales != nullptr ? scales.scales[layer].scale : 1.0f);
  return moments;
}

}  // namespace triaccel::kernels
