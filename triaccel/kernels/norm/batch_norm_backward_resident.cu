#include "triaccel/kernels/norm/batch_norm_backward.cuh"
#include "triaccel/kernels/norm/batch_norm_resident.cuh"

namespace triaccel::kernels::cuda {
namespace {

template <int kPack>
struct SharedCoefficients {
  ResidentRow<kPack> mean, scale, bias;
  ResidentRow<kPack> gradient_mean, slope;  // known after the sums
};

/// The folded gradients in place of the output's; all loads are on their way before the first use.
template <typename Stored, int kPack, int kTurns>
__device__ void fold_rows(const NormBackward& params, const ResidentRows<kPack>& rows,
                          ChannelPack<Stored, kPack> (&gradient)[kTurns]) {
  if (params.added_gradient == nullptr && params.relu_mask == nullptr) return;
  ChannelPack<Stored, kPack> added[kTurns];
  unsigned relu_mask[kTurns] = {};
  if (params.added_gradient != nullptr) rows.load(params.added_gradient, added);
  if (params.relu_mask != nullptr) {
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      if (i < rows.count) relu_mask[i] = params.relu_mask[rows.element(i) / kPack];
  }
#pragma unroll
  for (int i = 0; i < kTurns; ++i)
    if (i < rows.count) gradient[i] = folded(params, gradient[i], added[i], relu_mask[i]);
}

/// Behind the factors, in place of the folded gradients.
template <typename Factors, typename Stored, int kPack, int kTurns>
__device__ void scale_rows(const float (&factor)[kTurns],
                           ChannelPack<Stored, kPack> (&gradient)[kTurns]) {
#pragma unroll
  for (int i = 0; i < kTurns; ++i) gradient[i] = scaled<Factors>(gradient[i], factor[i]);
}

/// The block's sums of gradient and gradient * distance.
template <typename Factors, typename Stored, int kPack, int kTurns>
__device__ float2 block_sums(const NormBackward& params, const ResidentRows<kPack>& rows,
                             const ChannelPack<Stored, kPack> (&fold)[kTurns],
                             const ChannelPack<Stored, kPack> (&input)[kTurns],
                             const Channels<kPack>& channels) {
  __shared__ WarpSums<kPack> places[2];
  float values[2][kPack] = {}, totals[2];
#pragma unroll
  for (int i = 0; i < kTurns; ++i)
    if (i < rows.count) {
      float gradient[kPack], distance[kPack];
      through_activation<Factors>(params, fold[i], input[i], channels, gradient, distance);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        values[0][k] += gradient[k];
        values[1][k] += gradient[k] * distance[k];
      }
    }
  sum_over_block(values, places, totals);
  return {totals[0], totals[1]};
}

template <typename Stored, int kTurns, typename Factors>
__global__ void __launch_bounds__(kResidentThreads)
    resident_backward_kernel(NormBackward params, Factors factors, int block_rows) {
  constexpr int kPack = 16 / sizeof(typename Stored::Word);
  __shared__ ClusterParts<kPack> sums;
  __shared__ SharedCoefficients<kPack> shared;
  sums.open();
  const ResidentRows<kPack> rows(params.map, block_rows);
  ChannelPack<Stored, kPack> gradient[kTurns], input[kTurns];
  wait_for_previous_kernel();
  rows.load(params.output_gradient, gradient);
  rows.load(params.input, input);
  float factor[kTurns];
  rows.template load_factors<Stored>(factors, factor);
  const int channel = static_cast<int>(threadIdx.x);
  const std::int64_t map_channel = std::int64_t{blockIdx.y} * kPack + channel;
  float inverse = 0;
  if (channel < kPack) {
    inverse = params.inverse_deviation[map_channel];
    const NormCoefficients one = norm_coefficients(params.mean[map_channel], inverse, params.weight,
                                                   params.bias, map_channel);
    shared.mean.values[channel] = one.mean;
    shared.scale.values[channel] = one.scale;
    shared.bias.values[channel] = one.bias;
  }
  fold_rows(params, rows, gradient);
  if (params.residual_gradient != nullptr)
    rows.template store<kTurns>(params.residual_gradient, [&](int i) { return gradient[i]; });
  scale_rows<Factors>(factor, gradient);
  __syncthreads();
  Channels<kPack> channels;
  shared.mean.read(channels.mean);
  shared.scale.read(channels.scale);
  shared.bias.read(channels.bias);

  sums.exchange(block_sums<Factors>(params, rows, gradient, input, channels));
  if (warp_id() == 0) {
    const float sum = sums.sum([&](int i) { return sums.of(i).x; });
    const float product = sums.sum([&](int i) { return sums.of(i).y; });
    if (channel < kPack) {
      const NormGradientCoefficients one =
          gradient_coefficients(sum, product, inverse, static_cast<float>(params.map.rows));
      shared.gradient_mean.values[channel] = one.gradient_mean;
      shared.slope.values[channel] = one.slope;
      if (blockIdx.x == 0 && params.weight_gradient != nullptr)
        params.weight_gradient[map_channel] = product * inverse;
      if (blockIdx.x == 0 && params.bias_gradient != nullptr)
        params.bias_gradient[map_channel] = sum;
    }
  }
  if (params.input_gradient == nullptr) return;
  __syncthreads();
  float gradient_mean[kPack], slope[kPack];
  shared.gradient_mean.read(gradient_mean);
  shared.slope.read(slope);
  rows.template store<kTurns>(params.input_gradient, [&](int i) {
    return input_gradient_pack<Factors>(params, gradient[i], input[i], channels, gradient_mean,
                                        slope);
  });
}

}  // namespace

void backward_resident(const NormBackward& params, const ResidentNormPlan& plan,
                       cudaStream_t stream) {
  with_resident_type(
      params.map.type, plan.turns,
      [&]<typename Stored, int turns>(Stored, std::integral_constant<int, turns>) {
        with_factors(params.factors, params.map, [&]<typename Factors>(Factors factors) {
          launch_overlapped("batch_norm_backward", resident_backward_kernel<Stored, turns, Factors>,
                            plan.shape(), stream, params, factors, plan.block_rows);
        });
      });
}

}  // namespace triaccel::kernels::cuda
