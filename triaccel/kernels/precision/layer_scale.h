#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/gradient_moments.h"

namespace triaccel::kernels {

/// One layer's own FP16 scale, in device memory next to those of the other layers. An FP16 layer
/// multiplies the gradient of its output by `scale` before it rounds it, and its weight gradient
/// arrives as FP16 still multiplied by it. Maxima are of magnitudes before that multiplication.
struct LayerScale {
  float scale = 1;           // a power of two in [kSmallestLayerScale, kLargestLayerScale]
  float output_maximum = 0;  // of this step: what the layer's backward pass met apart from its
                             // weight gradient (scaled_cast records it)
  float recent_maximum = 0;  // the largest of the last steps, fading
  float reserved = 0;        // makes a row of 16 bytes
};
static_assert(sizeof(LayerScale) == 16);

/// Within these bounds scale, 1 / scale and their products with a loss scale of up to 2^24 and any
/// FP16 number are exact in FP32.
inline constexpr float kSmallestLayerScale = 0x1.0p-24f;
inline constexpr float kLargestLayerScale = 0x1.0p40f;

/// Room for growth between two steps: scaled maxima are kept at 65504 / 2^3 or below.
inline constexpr float kScaledMaximum = 65504.0f / 8;

/// What is left of the recent maximum after a step: half of it after 69.
inline constexpr float kRecentMaximumDecay = 0.99f;

/// Delayed scaling: the scale of the next step from the maxima up to this one, once the step's
/// gradients have been used. With m = the largest of this step, `layers` holding its weight
/// gradients:
///   recent_maximum <- max(decay * recent_maximum, m);  output_maximum <- 0
///   scale <- the largest power of two with recent_maximum * scale <= kScaledMaximum
/// After gradients that were not finite recent_maximum does not fade and the scale at least halves.
/// A layer that never met a gradient keeps its scale.
namespace cpu {
void update_layer_scales(LayerScale* scales, const LayerMoments* layers, std::int64_t layer_count);
}
namespace cuda {
void update_layer_scales(LayerScale* scales, const LayerMoments* layers, std::int64_t layer_count,
                         cudaStream_t stream);
}

/// The scale a gradient of `layer` stored as `type` still carries: its layer's when it is FP16.
TRIACCEL_HOST_DEVICE inline float carried_scale(const LayerScale* scales, std::int32_t layer,
                                                FloatType type) {
  return scales != nullptr && type == FloatType::F16 ? scales[layer].scale : 1.0f;
}

TRIACCEL_HOST_DEVICE inline float clamped_layer_scale(float scale) {
  if (scale < kSmallestLayerScale) return kSmallestLayerScale;
  return scale < kLargestLayerScale ? scale : kLargestLayerScale;
}

/// The largest power of two, within the bounds, that keeps `maximum` > 0 at kScaledMaximum or
/// below.
TRIACCEL_HOST_DEVICE inline float layer_scale_for(float maximum) {
  int exponent;  // of kScaledMaximum: 13, its fraction being just below 1
  int limit_exponent;
  const float fraction = frexpf(maximum, &exponent);
  const float limit_fraction = frexpf(kScaledMaximum, &limit_exponent);
  const int power = limit_exponent - exponent - (fraction > limit_fraction ? 1 : 0);
  return clamped_layer_scale(ldexpf(1.0f, power));
}

TRIACCEL_HOST_DEVICE inline void update_layer_scale(LayerScale& layer,
                                                    const LayerMoments& gradients) {
  // The moments are free of any loss scale, which the maxima of the backward pass contain.
  const float gradient_maximum = gradients.absolute_maximum * (gradients.fp16_scale / layer.scale);
  const float met =
      layer.output_maximum > gradient_maximum ? layer.output_maximum : gradient_maximum;
  const bool overflowed = gradients.nonfinite > 0;
  const float faded =
      overflowed ? layer.recent_maximum : kRecentMaximumDecay * layer.recent_maximum;
  const float recent = met > faded ? met : faded;
  layer.recent_maximum = recent < FLT_MAX ? recent : FLT_MAX;  // infinity would never fade
  layer.output_maximum = 0;
  const float wanted =
      layer.recent_maximum > 0 ? layer_scale_for(layer.recent_maximum) : layer.scale;
  const float half = clamped_layer_scale(0.5f * layer.scale);
  layer.scale = overflowed && half < wanted ? half : wanted;
}

}  // namespace triaccel::kernels
