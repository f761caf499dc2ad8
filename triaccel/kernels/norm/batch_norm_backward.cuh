#pragma once

#include "triaccel/kernels/norm/batch_norm_factors.cuh"
#include "triaccel/kernels/norm/batch_norm_math.h"
#include "triaccel/kernels/norm/batch_norm_rows.cuh"

namespace triaccel::kernels::cuda {

/// The sum of both gradients of the output, under the ReLU mask where one was kept: the gradient of
/// a residual. `added` and `relu_mask` count only where they are given.
template <typename Stored, int kPack>
__device__ ChannelPack<Stored, kPack> folded(const NormBackward& params,
                                             const ChannelPack<Stored, kPack>& gradient,
                                             const ChannelPack<Stored, kPack>& added,
                                             unsigned relu_mask) {
  if (params.added_gradient == nullptr && params.relu_mask == nullptr) return gradient;
  float fold[kPack];
  unpack(gradient, fold);
  if (params.added_gradient != nullptr) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) fold[k] += added.value(k);
  }
  if (params.relu_mask != nullptr) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) fold[k] = mask_bit(relu_mask, k) ? fold[k] : 0.0f;
  }
  return pack_channels<Stored>(fold);
}

/// The folded gradient behind the factors; `factor` counts only where there are some.
template <typename Factors, typename Stored, int kPack>
__device__ ChannelPack<Stored, kPack> scaled(const ChannelPack<Stored, kPack>& fold, float factor) {
  if constexpr (!Factors::kAny) return fold;
  float values[kPack];
  unpack(fold, values);
#pragma unroll
  for (int k = 0; k < kPack; ++k) values[k] *= factor;
  return pack_channels<Stored>(values);
}

/// The gradient behind the activation, and the input's distance from the mean. A kept ReLU mask has
/// done their part in folded(); behind factors there is no other activation.
template <typename Factors, typename Stored, int kPack>
__device__ void through_activation(const NormBackward& params,
                                   const ChannelPack<Stored, kPack>& fold,
                                   const ChannelPack<Stored, kPack>& input,
                                   const Channels<kPack>& channels, float (&gradient)[kPack],
                                   float (&distance)[kPack]) {
  unpack(fold, gradient);
  unpack(input, distance);
  if (!Factors::kAny && params.relu_mask == nullptr && params.activation == Activation::Relu) {
#pragma unroll
    for (int k = 0; k < kPack; ++k)
      if (channels.normalised(k, distance[k]) <= 0.0f) gradient[k] = 0.0f;
  } else if (!Factors::kAny && params.activation == Activation::Silu) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) gradient[k] *= silu_slope(channels.normalised(k, distance[k]));
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) distance[k] -= channels.mean[k];
}

/// A pack of the input's gradient.
template <typename Factors, typename Stored, int kPack>
__device__ ChannelPack<Stored, kPack> input_gradient_pack(const NormBackward& params,
                                                          const ChannelPack<Stored, kPack>& fold,
                                                          const ChannelPack<Stored, kPack>& input,
                                                          const Channels<kPack>& channels,
                                                          const float (&gradient_mean)[kPack],
                                                          const float (&slope)[kPack]) {
  float gradient[kPack], distance[kPack];
  through_activation<Factors>(params, fold, input, channels, gradient, distance);
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    gradient[k] =
        input_gradient(gradient[k], distance[k], channels.scale[k], gradient_mean[k], slope[k]);
  return pack_channels<Stored>(gradient);
}

/// The one-kernel path of batch_norm_backward; the added gradient has every pixel.
void backward_resident(const NormBackward& params, const ResidentNormPlan& plan,
                       cudaStream_t stream);

}  // namespace triaccel::kernels::cuda
