#include "triaccel/kernels/norm/batch_norm_forward.cuh"
#include "triaccel/kernels/norm/batch_norm_resident.cuh"

namespace triaccel::kernels::cuda {
namespace {

template <int kPack>
struct SharedCoefficients {
  ResidentRow<kPack> mean, scale, bias;

  __device__ void set(int channel, const NormCoefficients& one) {
    mean.values[channel] = one.mean;
    scale.values[channel] = one.scale;
    bias.values[channel] = one.bias;
  }

  __device__ void read(Channels<kPack>& channels) const {
    mean.read(channels.mean);
    scale.read(channels.scale);
    bias.read(channels.bias);
  }
};

/// A block's mean and squared distances from it, in two passes over the registers: no digit is lost
/// to a mean far from zero.
template <typename Stored, int kPack, int kTurns>
__device__ float2 block_moments(ChannelPack<Stored, kPack> (&packs)[kTurns], int count,
                                int block_count) {
  __shared__ WarpSums<kPack> sum_places[1], square_places[1];
  const float share = block_count > 0 ? 1.0f / static_cast<float>(block_count) : 0.0f;
  float values[1][kPack] = {}, total[1], mean[kPack];
#pragma unroll
  for (int i = 0; i < kTurns; ++i)
#pragma unroll
    for (int k = 0; k < kPack; ++k) values[0][k] += packs[i].value(k);
  stay_packed(packs);
  sum_over_block(values, sum_places, total);
  const float own_mean = total[0] * share;
  spread(own_mean, mean);
#pragma unroll
  for (int k = 0; k < kPack; ++k) values[0][k] = 0;
#pragma unroll
  for (int i = 0; i < kTurns; ++i)
    if (i < count) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const float distance = packs[i].value(k) - mean[k];
        values[0][k] += distance * distance;
      }
    }
  stay_packed(packs);
  sum_over_block(values, square_places, total);
  return {own_mean, total[0]};
}

/// Of all blocks together, in one warp.
template <int kPack>
__device__ float2 cluster_moments(const ClusterParts<kPack>& moments, const NormMap& map,
                                  const ResidentRows<kPack>& rows) {
  const auto count = [&](int block) { return static_cast<float>(rows.rows_of(map, block)); };
  const float shift = moments.of(0).x;
  const float sum =
      moments.sum([&](int block) { return count(block) * (moments.of(block).x - shift); });
  const float mean = shift + sum / static_cast<float>(map.rows);
  const float squares = moments.sum([&](int block) {
    const float2 one = moments.of(block);
    return one.y + count(block) * (one.x - mean) * (one.x - mean);
  });
  return {mean, squares};
}

template <typename Stored, int kTurns, bool kNormsResidual, typename Factors>
__global__ void __launch_bounds__(kResidentThreads)
    resident_train_kernel(NormForward params, NormBatchStatistics statistics, Factors factors,
                          int block_rows) {
  constexpr int kPack = 16 / sizeof(typename Stored::Word);
  __shared__ ClusterParts<kPack> moments;
  __shared__ SharedCoefficients<kPack> shared, of_residual;
  moments.open();
  const ResidentRows<kPack> rows(params.map, block_rows);
  ChannelPack<Stored, kPack> input[kTurns], residual[kTurns];
  wait_for_previous_kernel();
  rows.load(params.input, input);
  const int channel = static_cast<int>(threadIdx.x);
  const OwnParameters own(params, statistics, std::int64_t{blockIdx.y} * kPack + channel,
                          channel < kPack);
  if (params.residual != nullptr) rows.load(params.residual, residual);

  const int block_count = rows.rows_of(params.map, static_cast<int>(blockIdx.x));
  const float2 own_moments = block_moments(input, rows.count, block_count);
  float factor[kTurns];  // not sooner: the sums need the registers, and the blocks now meet
  rows.template load_factors<Stored>(factors, factor);
  moments.exchange(own_moments);
  if (warp_id() == 0) {
    const float2 all = cluster_moments(moments, params.map, rows);
    if (channel < kPack) {
      const float variance = all.y / static_cast<float>(params.map.rows);
      shared.set(channel, own.coefficients(all.x, inverse_deviation_of(variance, params.eps)));
      if (kNormsResidual)
        of_residual.set(channel, norm_coefficients(params.residual_norm, own.channel));
      if (blockIdx.x == 0) own.record(params, statistics, all.x, all.y);
    }
  }
  if (params.output == nullptr) return;
  __syncthreads();
  Channels<kPack> channels, residual_channels;
  shared.read(channels);
  if constexpr (kNormsResidual) of_residual.read(residual_channels);
  rows.template store<kTurns>(params.output, [&](int i) {
    const ChannelPack<Stored, kPack> output = output_pack<Factors, kNormsResidual>(
        params, input[i], factor[i], residual[i], channels, residual_channels);
    if (params.relu_mask != nullptr)
      params.relu_mask[rows.element(i) / kPack] = relu_mask_of(output);
    return output;
  });
}

}  // namespace

void train_resident(const NormForward& params, const NormBatchStatistics& statistics,
                    const ResidentNormPlan& plan, cudaStream_t stream) {
  const auto launch = [&](auto kernel, const auto& factors) {
    launch_overlapped("batch_norm_train", kernel, plan.shape(), stream, params, statistics, factors,
                      plan.block_rows);
  };
  with_resident_type(
      params.map.type, plan.turns,
      [&]<typename Stored, int turns>(Stored, std::integral_constant<int, turns>) {
        if (params.residual_norm.mean != nullptr)
          return launch(resident_train_kernel<Stored, turns, true, NoFactors>, NoFactors{});
        with_factors(params.factors, params.map, [&]<typename Factors>(Factors factors) {
          launch(resident_train_kernel<Stored, turns, false, Factors>, factors);
        });
      });
}

}  // namespace triaccel::kernels::cuda
