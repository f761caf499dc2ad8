#pragma once

#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/precision/layer_scale.h"
#include "triaccel/kernels/update/gradient_moments.h"

namespace triaccel::kernels {

/// Elements summed in FP32 before FP64 takes over: few enough that the rounding does not show.
inline constexpr int kElementsPerLane = 16;

/// How the stored elements of one tensor turn into gradients, and what FP16 would keep of them.
struct GradientScales {
  float unscale = 1;              // stored -> gradient
  float fp16_zero = 0x1.0p-25f;   // the largest stored magnitude that FP16 would round to zero
  float fp16_whole = 0x1.0p-14f;  // the smallest that it would keep with all its 11 bits
};

TRIACCEL_HOST_DEVICE inline GradientScales gradient_scales(MomentsScales scales, std::int32_t layer,
                                                           FloatType type) {
  const float carried = carried_scale(scales.scales, layer, type);
  const float layer_scale = scales.scales != nullptr ? scales.scales[layer].scale : 1.0f;
  const float from_fp16 = carried / layer_scale;  // both are powers of two
  return {1.0f / (*scales.loss_scale * carried), 0x1.0p-25f * from_fp16, 0x1.0p-14f * from_fp16};
}

/// Counts without a branch. A GPU counts in floats, at twice the rate of integers.
TRIACCEL_HOST_DEVICE inline void count_if(bool condition, std::int32_t& counter) {
  counter += static_cast<std::int32_t>(condition);
}
TRIACCEL_HOST_DEVICE inline void count_if(bool condition, float& counter) {
  if (condition) counter += 1.0f;
}

/// Adds one stored element, which must be finite, to a lane's FP32 sums. Masks instead of
/// conditions: loops over it vectorise.
template <typename Counter>
TRIACCEL_HOST_DEVICE inline void add_finite(float stored, GradientScales scales, float& sum,
                                            float& sum_of_squares, float& absolute_maximum,
                                            Counter& fp16_zeros, Counter& fp16_subnormals) {
  const float value = stored * scales.unscale;
  const float magnitude = fabsf(value);
  const bool lost = fabsf(stored) <= scales.fp16_zero;
  sum += value;
  sum_of_squares += value * value;
#ifdef __CUDA_ARCH__
  absolute_maximum = fmaxf(absolute_maximum, magnitude);  // one instruction
#else
  absolute_maximum = magnitude > absolute_maximum ? magnitude : absolute_maximum;
#endif
  count_if(lost & (stored != 0.0f), fp16_zeros);
  count_if(!lost & (fabsf(stored) < scales.fp16_whole), fp16_subnormals);
}

/// The same of any element: one that is not finite is counted and else as zero.
template <typename Counter>
TRIACCEL_HOST_DEVICE inline void add_element(float stored, GradientScales scales, float& sum,
                                             float& sum_of_squares, float& absolute_maximum,
                                             std::int32_t& nonfinite, Counter& fp16_zeros,
                                             Counter& fp16_subnormals) {
  const std::uint32_t bits = bits_of_float(stored);
  const std::int32_t finite = (bits & 0x7fffffffu) < 0x7f800000u;
  nonfinite += 1 - finite;
  add_finite(float_from_bits(bits & (0u - static_cast<std::uint32_t>(finite))), scales, sum,
             sum_of_squares, absolute_maximum, fp16_zeros, fp16_subnormals);
}

/// What one thread knows of its elements.
template <typename Sum>
struct ThreadMoments {
  Sum sum = 0;
  Sum sum_of_squares = 0;
  float absolute_maximum = 0;
  float fp16_zeros = 0;
  float fp16_subnormals = 0;
  std::int32_t nonfinite = 0;
};

/// What one lane sums in FP32.
using LaneMoments = ThreadMoments<float>;

/// Of kElementsPerLane elements. Any that is not finite shows in their sum, so nothing else looks
/// for it as long as there is none. held(i) and again(i) are the same element: a GPU has registers
/// for it until it is added, and reads it from memory should it be needed again.
template <typename Held, typename Again>
TRIACCEL_HOST_DEVICE inline LaneMoments lane_moments(const Held& held, const Again& again,
                                                     GradientScales scales) {
  LaneMoments lane;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = 0; i < kElementsPerLane; ++i)
    add_finite(held(i), scales, lane.sum, lane.sum_of_squares, lane.absolute_maximum,
               lane.fp16_zeros, lane.fp16_subnormals);
  if ((bits_of_float(lane.sum) & 0x7fffffffu) < 0x7f800000u) return lane;
  lane = {};
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
  for (int i = 0; i < kElementsPerLane; ++i)
    add_element(again(i), scales, lane.sum, lane.sum_of_squares, lane.absolute_maximum,
                lane.nonfinite, lane.fp16_zeros, lane.fp16_subnormals);
  return lane;
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
