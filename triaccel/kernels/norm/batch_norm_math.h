#pragma once

#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/norm/batch_norm.h"

namespace triaccel::kernels {

/// Of `count` values: their mean and the sum of their squared distances from it.
struct Moments {
  float count = 0;
  float mean = 0;
  float squares = 0;
};

/// From sums of the `count` distances to `shift`, which is one of the values: the further it lies
/// out, the more it adds to the squares itself, so that little is lost in the difference.
TRIACCEL_HOST_DEVICE inline Moments moments_around(float shift, float count, float sum,
                                                   float sum_of_squares) {
  const float squares = sum_of_squares - sum * (sum / count);
  return {count, shift + sum / count, squares < 0 ? 0 : squares};
}

/// All of entry(0) ... entry(entries - 1) together; an entry of count 0 adds nothing.
template <typename Entry>
TRIACCEL_HOST_DEVICE inline Moments merged_moments(int entries, Entry entry) {
  const float shift = entry(0).mean;
  Moments all;
  float sum = 0;
  for (int i = 0; i < entries; ++i) {
    const Moments one = entry(i);
    all.count += one.count;
    sum += one.count * (one.mean - shift);
  }
  if (all.count == 0) return all;
  all.mean = shift + sum / all.count;
  for (int i = 0; i < entries; ++i) {
    const Moments one = entry(i);
    const float distance = one.mean - all.mean;
    all.squares += one.squares + one.count * distance * distance;
  }
  return all;
}

TRIACCEL_HOST_DEVICE inline float inverse_deviation_of(float variance, float eps) {
#ifdef __CUDA_ARCH__
  return rsqrtf(variance + eps);
#else
  return 1.0f / sqrtf(variance + eps);
#endif
}

TRIACCEL_HOST_DEVICE inline float moved_average(float average, float value, float momentum) {
  return (1 - momentum) * average + momentum * value;
}

/// How one channel is normalised. Forward and backward form it from the same saved numbers, so that
/// a ReLU recomputed in backward opens where it opened in forward.
struct NormCoefficients {
  float mean = 0;
  float scale = 1;  // weight / deviation
  float bias = 0;
};

TRIACCEL_HOST_DEVICE inline NormCoefficients norm_coefficients(float mean, float inverse_deviation,
                                                               const float* weight,
                                                               const float* bias,
                                                               std::int64_t channel) {
  return {mean, weight != nullptr ? weight[channel] * inverse_deviation : inverse_deviation,
          bias != nullptr ? bias[channel] : 0.0f};
}

TRIACCEL_HOST_DEVICE inline NormCoefficients norm_coefficients(const ResidualNorm& norm,
                                                               std::int64_t channel) {
  return norm_coefficients(norm.mean[channel], norm.inverse_deviation[channel], norm.weight,
                           norm.bias, channel);
}

TRIACCEL_HOST_DEVICE inline NormCoefficients norm_coefficients(
    const NormForward& params, const NormKnownStatistics& statistics, std::int64_t channel) {
  const float inverse_deviation =
      statistics.variance != nullptr
          ? inverse_deviation_of(statistics.variance[channel], params.eps)
          : statistics.inverse_deviation[channel];
  return norm_coefficients(statistics.mean[channel], inverse_deviation, params.weight, params.bias,
                           channel);
}

TRIACCEL_HOST_DEVICE inline float normalised(float x, float mean, float scale, float bias) {
  return (x - mean) * scale + bias;
}

/// e^x within two units in the last place. On the CPU free of branches and calls, so that loops
/// over it vectorise: 2^n * e^r with n an integer and |r| <= ln(2)/2.
TRIACCEL_HOST_DEVICE inline float exponential(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  const float inside = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float shifted = inside * 1.44269504f + 0x1.8p23f;  // its last bits are n
  const float n = shifted - 0x1.8p23f;
  const float r = (inside - n * 0.693359375f) + n * 2.12194440e-4f;
  float series = 1.9875691500e-4f;
  series = series * r + 1.3981999507e-3f;
  series = series * r + 8.3334519073e-3f;
  series = series * r + 4.1665795894e-2f;
  series = series * r + 1.6666665459e-1f;
  series = series * r + 5.0000001201e-1f;
  const float power = float_from_bits((bits_of_float(shifted) + 127u) << 23);
  return (series * r * r + r + 1.0f) * power;
#endif
}

#ifdef __CUDACC__
/// 2^x and 1 / x within two units in the last place, by one instruction each; what is below 2^-126
/// counts as zero.
__device__ inline float quick_power(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
__device__ inline float quick_inverse(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}
#endif

TRIACCEL_HOST_DEVICE inline float sigmoid(float x) {
#ifdef __CUDA_ARCH__
  return quick_inverse(1.0f + quick_power(x * -1.44269504f));
#else
  return 1.0f / (1.0f + exponential(-x));
#endif
}

TRIACCEL_HOST_DEVICE inline float silu(float x) { return x * sigmoid(x); }

TRIACCEL_HOST_DEVICE inline float silu_slope(float x) {
  const float s = sigmoid(x);
  return s * (1.0f + x * (1.0f - s));
}

/// A NaN stays one, as in torch.
TRIACCEL_HOST_DEVICE inline float relu(float x) { return x < 0.0f ? 0.0f : x; }

TRIACCEL_HOST_DEVICE inline bool mask_bit(unsigned relu_mask, int k) {
  return ((relu_mask >> k) & 1u) != 0;
}

/// One channel of the backward pass: dx = (g - gradient_mean - (x - mean) * slope) * scale, where g
/// is the gradient behind the activation.
struct NormGradientCoefficients {
  float gradient_mean = 0;
  float slope = 0;
};

/// From the channel's sums of g and of g * (x - mean).
TRIACCEL_HOST_DEVICE inline NormGradientCoefficients gradient_coefficients(float sum, float product,
                                                                           float inverse_deviation,
                                                                           float rows) {
  return {sum / rows, product / rows * inverse_deviation * inverse_deviation};
}

TRIACCEL_HOST_DEVICE inline float input_gradient(float g, float distance, float scale,
                                                 float gradient_mean, float slope) {
  return (g - gradient_mean - distance * slope) * scale;
}

}  // namespace triaccel::kernels
