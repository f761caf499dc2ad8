#pragma once

#include "triaccel/kernels/norm/batch_norm_factors.cuh"
#include "triaccel/kernels/norm/batch_norm_math.h"
#include "triaccel/kernels/norm/batch_norm_rows.cuh"

namespace triaccel::kernels::cuda {

/// A pack of the output. `factor` counts only where there are factors, `residual` where there is
/// one, `of_residual` where it is normalised.
template <typename Factors, bool kNormsResidual, typename Stored, int kPack>
__device__ ChannelPack<Stored, kPack> output_pack(const NormForward& params,
                                                  const ChannelPack<Stored, kPack>& input,
                                                  float factor,
                                                  const ChannelPack<Stored, kPack>& residual,
                                                  const Channels<kPack>& channels,
                                                  const Channels<kPack>& of_residual) {
  float y[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) y[k] = channels.normalised(k, input.value(k));
  if constexpr (Factors::kAny) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) y[k] *= factor;
  }
  if constexpr (kNormsResidual) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) y[k] += of_residual.normalised(k, residual.value(k));
  } else if (params.residual != nullptr) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) y[k] += residual.value(k);
  }
  if (params.activation == Activation::Relu) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) y[k] = relu(y[k]);
  } else if (params.activation == Activation::Silu) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) y[k] = silu(y[k]);
  }
  return pack_channels<Stored>(y);
}

/// What a channel has besides its sums, read before it is needed.
struct OwnParameters {
  std::int64_t channel;
  float weight = 1, bias = 0, running_mean = 0, running_variance = 0;

  /// A thread with no channel of the map reads nothing.
  __device__ OwnParameters(const NormForward& params, const NormBatchStatistics& statistics,
                           std::int64_t own, bool is_channel)
      : channel(own) {
    if (!is_channel) return;
    if (params.weight != nullptr) weight = params.weight[channel];
    if (params.bias != nullptr) bias = params.bias[channel];
    if (statistics.running_mean != nullptr) running_mean = statistics.running_mean[channel];
    if (statistics.running_variance != nullptr)
      running_variance = statistics.running_variance[channel];
  }

  __device__ NormCoefficients coefficients(float mean, float inverse_deviation) const {
    return norm_coefficients(mean, inverse_deviation, &weight, &bias, 0);
  }

  /// Leaves what training keeps of the channel. `squares`: the sum of squared distances.
  __device__ void record(const NormForward& params, const NormBatchStatistics& statistics,
                         float mean, float squares) const {
    const auto rows = static_cast<float>(params.map.rows);
    statistics.mean[channel] = mean;
    statistics.inverse_deviation[channel] = inverse_deviation_of(squares / rows, params.eps);
    if (float* running = statistics.running_mean)
      running[channel] = moved_average(running_mean, mean, statistics.momentum);
    if (float* running = statistics.running_variance)
      running[channel] = moved_average(running_variance, squares / (rows - 1), statistics.momentum);
  }
};

/// The one-kernel path of batch_norm_train.
void train_resident(const NormForward& params, const NormBatchStatistics& statistics,
                    const ResidentNormPlan& plan, cudaStream_t stream);

}  // namespace triaccel::kernels::cuda
