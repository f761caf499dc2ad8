#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/precision/layer_scale.h"

namespace triaccel::kernels {

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
