#include "triaccel/kernels/norm/batch_norm_forward.cuh"
#include "triaccel/kernels/norm/batch_norm_sums.cuh"

namespace triaccel::kernels::cuda {
namespace {

// Of a map; above, two kernels are faster.
constexpr std::int64_t kMaxResidentBytes = 2 << 20;
constexpr int kInFlight = 4;     // of up to two maps each
constexpr int kSumInFlight = 8;  // of one map: as many bytes must be on their way
constexpr int kResident = 3;     // blocks of kNormSumThreads on a multiprocessor
constexpr Order kSumOrder = Order::Backwards;

/// A second norm's coefficients, or factors, take the registers of a third block.
constexpr int resident_blocks(bool norms_residual, bool has_factors) {
  return norms_residual || has_factors ? 2 : kResident;
}

/// Coefficients of a block's channels.
struct GroupCoefficients {
  GroupRow mean, scale, bias;

  __device__ void set(const NormCoefficients& one) {
    mean[threadIdx.x] = one.mean;
    scale[threadIdx.x] = one.scale;
    bias[threadIdx.x] = one.bias;
  }

  template <int kPack>
  __device__ void read(int channel, Channels<kPack>& channels) const {
    read_row(mean, channel, channels.mean);
    read_row(scale, channel, channels.scale);
    read_row(bias, channel, channels.bias);
  }
};

template <typename Stored, int kPack, int kBlock>
__device__ void sum_rows(const void* input, const ThreadRows<kPack>& rows, int packs,
                         BlockSums<kBlock>& sums) {
  __shared__ ThreadSums<kPack, kBlock> threads;
  float shift[kPack] = {}, sum[kPack] = {}, squares[kPack] = {};
  for_each_pack<kSumInFlight, kSumOrder>(
      rows, [&](int index) { return load_channels<Stored, kPack>(input, rows.element(index)); },
      [&](const ChannelPack<Stored, kPack>& pack, int, int turn) {
        float x[kPack];
        unpack(pack, x);
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          if (turn == 0) shift[k] = x[k];
          const float distance = x[k] - shift[k];
          sum[k] += distance;
          squares[k] += distance * distance;
        }
      });
  if (rows.count > 0) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const Moments moments =
          moments_around(shift[k], static_cast<float>(rows.count), sum[k], squares[k]);
      sum[k] = moments.mean;
      squares[k] = moments.squares;
    }
  }
  reduce_block<MergeMoments>(sums, threads, packs, rows.count, sum, squares);
}

/// `of_residual` is read where it is normalised.
template <typename Stored, Order kOrder, bool kNormsResidual, typename Factors, int kPack>
__device__ void normalise_rows(const NormForward& params, const Factors& factors,
                               const ThreadRows<kPack>& rows, const GroupCoefficients& group,
                               const GroupCoefficients& of_residual) {
  struct Read {
    ChannelPack<Stored, kPack> input, residual;
    float factor;
  };
  Channels<kPack> channels, residual_channels;
  group.read(rows.channel, channels);
  if constexpr (kNormsResidual) of_residual.read(rows.channel, residual_channels);
  for_each_pack<kInFlight, kOrder>(
      rows,
      [&](int index) {
        const std::int64_t element = rows.element(index);
        Read read = {};
        read.input = load_channels<Stored, kPack, Reuse::Last>(params.input, element);
        if (params.residual != nullptr)
          read.residual = load_channels<Stored, kPack, Reuse::Last>(params.residual, element);
        read.factor = factors.template of<Stored>(rows.row(index));
        return read;
      },
      [&](const Read& read, int index, int) {
        const std::int64_t element = rows.element(index);
        const ChannelPack<Stored, kPack> output = output_pack<Factors, kNormsResidual>(
            params, read.input, read.factor, read.residual, channels, residual_channels);
        store_channels(params.output, element, output);
        if (params.relu_mask != nullptr) params.relu_mask[element / kPack] = relu_mask_of(output);
      });
}

/// The channel that thread threadIdx.x < width answers for, or a number past the last one.
__device__ std::int64_t own_channel(int width) {
  return std::int64_t{blockIdx.y} * width + threadIdx.x;
}

/// A thread of the first `width` answers for a channel, if its group is not the last one's rest.
__device__ bool owns_channel(const NormForward& params, int width) {
  return threadIdx.x < width && own_channel(width) < params.map.channels;
}

template <typename Stored, int kPack>
__global__ void __launch_bounds__(kNormSumThreads, kResident)
    sum_kernel(NormForward params, PartialSums partials, int packs) {
  __shared__ BlockSums<kNormSumThreads> sums;
  const int width = packs * kPack;
  const ThreadRows<kPack> rows(params.map, packs);
  wait_for_previous_kernel();
  sum_rows<Stored>(params.input, rows, packs, sums);
  let_next_kernel_begin();
  const ChannelSums all = cluster_total<MergeMoments>(sums, width);
  if (threadIdx.x < width) write_partial(partials, params.map.channels, own_channel(width), all);
  leave_cluster();
}

template <typename Stored, int kPack, bool kNormsResidual, typename Factors>
__global__ void __launch_bounds__(kNormSumThreads, resident_blocks(kNormsResidual, Factors::kAny))
    normalise_kernel(NormForward params, NormBatchStatistics statistics, Factors factors,
                     PartialSums partials, int packs) {
  __shared__ BlockSums<kNormSumThreads> sums;
  __shared__ GroupCoefficients group, of_residual;
  const int width = packs * kPack;
  const bool owns = owns_channel(params, width);
  const ThreadRows<kPack> rows(params.map, packs);
  wait_for_previous_kernel();
  const OwnParameters own(params, statistics, own_channel(width), owns);
  const ChannelSums all = read_partials<MergeMoments>(sums, partials, params.map.channels, width);
  if (owns) {
    const float variance = all.second / static_cast<float>(params.map.rows);
    group.set(own.coefficients(all.first, inverse_deviation_of(variance, params.eps)));
    if (kNormsResidual) of_residual.set(norm_coefficients(params.residual_norm, own.channel));
    if (blockIdx.x == 0) own.record(params, statistics, all.first, all.second);
  }
  if (params.output == nullptr) return;
  __syncthreads();
  normalise_rows<Stored, opposite(kSumOrder), kNormsResidual>(params, factors, rows, group,
                                                              of_residual);
}

template <typename Stored, int kPack>
__global__ void __launch_bounds__(kNormSumThreads, kResident)
    infer_kernel(NormForward params, NormKnownStatistics statistics, int packs) {
  __shared__ GroupCoefficients group;
  const int width = packs * kPack;
  const std::int64_t c = own_channel(width);
  const ThreadRows<kPack> rows(params.map, packs);
  wait_for_previous_kernel();
  if (owns_channel(params, width)) group.set(norm_coefficients(params, statistics, c));
  __syncthreads();
  normalise_rows<Stored, Order::Backwards, /*kNormsResidual=*/false>(params, NoFactors{}, rows,
                                                                     group, group);
}

bool aligned(const NormForward& params) {
  return aligned_for_vectors(params.output, params.input, params.residual);
}

}  // namespace

void batch_norm_train(const NormForward& params, const NormBatchStatistics& statistics,
                      void* scratch, cudaStream_t stream) {
  constexpr std::string_view who = "batch_norm_train";
  if (params.map.rows == 0 || params.map.channels == 0) return;
  ensure(params.relu_mask == nullptr || aligned(params),
         "maps with a ReLU mask start at multiples of 16 bytes");
  ensure(params.factors.values == nullptr || params.residual_norm.mean == nullptr,
         "a norm with factors adds its residual as it is");
  if (const auto plan = plan_resident_norm(params.map, aligned(params), kMaxResidentBytes))
    return train_resident(params, statistics, *plan, stream);
  const NormPlan plan = plan_norm(params.map, aligned(params));
  const PartialSums partials(scratch, plan.parts(), params.map.channels);
  const auto normalise = [&](auto kernel, bool norms_residual, const auto& factors) {
    LaunchShape shape = plan.elementwise_shape(resident_blocks(norms_residual, factors.kAny));
    if (params.output == nullptr) shape.grid.x = 1;  // only the last sums are left
    launch_overlapped(who, kernel, shape, stream, params, statistics, factors, partials,
                      plan.packs);
  };
  with_norm_type(params.map.type, plan.pack,
                 [&]<typename Stored, int pack>(Stored, std::integral_constant<int, pack>) {
                   launch_overlapped(who, sum_kernel<Stored, pack>, plan.sum_shape(), stream,
                                     params, partials, plan.packs);
                   if (params.residual_norm.mean != nullptr)
                     return normalise(normalise_kernel<Stored, pack, true, NoFactors>, true,
                                      NoFactors{});
                   with_factors(params.factors, params.map, [&]<typename Factors>(Factors factors) {
                     normalise(normalise_kernel<Stored, pack, false, Factors>, false, factors);
                   });
                 });
}

void batch_norm_infer(const NormForward& params, NormKnownStatistics statistics,
                      cudaStream_t stream) {
  if (params.map.rows == 0 || params.map.channels == 0) return;
  ensure(params.factors.values == nullptr, "factors come with training");
  const NormPlan plan = plan_elementwise_norm(params.map, aligned(params));
  with_norm_type(params.map.type, plan.pack,
                 [&]<typename Stored, int pack>(Stored, std::integral_constant<int, pack>) {
                   launch_overlapped("batch_norm_infer", infer_kernel<Stored, pack>,
                                     plan.elementwise_shape(kResident), stream, params, statistics,
                                     plan.packs);
                 });
}

}  // namespace triaccel::kernels::cuda
