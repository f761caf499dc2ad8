#include "triaccel/kernels/common/even_pixels.h"
#include "triaccel/kernels/norm/batch_norm_backward.cuh"
#include "triaccel/kernels/norm/batch_norm_sums.cuh"

namespace triaccel::kernels::cuda {
namespace {

// Of a map; above, two kernels are faster.
constexpr std::int64_t kMaxResidentBytes = 1280 << 10;
constexpr int kInFlight = 4;  // of two or three maps each
constexpr int kResident = 2;  // blocks of kNormSumThreads on a multiprocessor
constexpr Order kSumOrder = Order::Backwards;

using AddedPixels = EvenPixelIndex<std::int32_t, FastDivide>;

/// Coefficients of a block's channels; the last two are known after the sums.
struct GroupCoefficients {
  GroupRow mean, scale, bias, gradient_mean, slope;
};

/// One pack of every map that is read.
template <typename Stored, int kPack>
struct Read {
  ChannelPack<Stored, kPack> gradient, added, input;
  float factor;
  std::uint8_t relu_mask;
};

/// Where the added gradient and the factor of a row lie.
template <typename Factors>
struct RowMaps {
  AddedPixels added;
  Factors factors;
};

/// Where the added gradient's pack lies that belongs to `element` of the map; -1: nowhere, it is
/// zero.
__device__ std::int64_t added_element(const NormBackward& params, const AddedPixels& pixels,
                                      std::int64_t element, std::int64_t row) {
  if (params.added_pixels.height == 0) return element;
  const std::int64_t even = pixels.even_of(static_cast<std::int32_t>(row));
  return even < 0 ? -1 : element + (even - row) * params.map.channels;
}

template <typename Stored, int kPack, Reuse kReuse, typename Factors>
__device__ Read<Stored, kPack> read_pack(const NormBackward& params, const RowMaps<Factors>& maps,
                                         const ThreadRows<kPack>& rows, int index) {
  const std::int64_t element = rows.element(index);
  Read<Stored, kPack> read = {};
  read.gradient = load_channels<Stored, kPack, kReuse>(params.output_gradient, element);
  read.input = load_channels<Stored, kPack, kReuse>(params.input, element);
  if (params.added_gradient != nullptr) {
    const std::int64_t added = added_element(params, maps.added, element, rows.row(index));
    if (added >= 0) read.added = load_channels<Stored, kPack, kReuse>(params.added_gradient, added);
  }
  read.factor = maps.factors.template of<Stored>(rows.row(index));
  if (params.relu_mask != nullptr) read.relu_mask = params.relu_mask[element / kPack];
  return read;
}

template <typename Stored, int kPack>
__device__ ChannelPack<Stored, kPack> fold_of(const NormBackward& params,
                                              const Read<Stored, kPack>& read) {
  return folded(params, read.gradient, read.added, read.relu_mask);
}

template <int kPack>
__device__ Channels<kPack> channels_of(const GroupCoefficients& group, int channel) {
  Channels<kPack> channels;
  read_row(group.mean, channel, channels.mean);
  read_row(group.scale, channel, channels.scale);
  read_row(group.bias, channel, channels.bias);
  return channels;
}

/// Sums of gradient and gradient * distance; writes the residual's gradient on the way.
template <typename Stored, typename Factors, int kPack, int kBlock>
__device__ void sum_rows(const NormBackward& params, const RowMaps<Factors>& maps,
                         const ThreadRows<kPack>& rows, int packs, const GroupCoefficients& group,
                         BlockSums<kBlock>& sums) {
  __shared__ ThreadSums<kPack, kBlock> threads;
  const Channels<kPack> channels = channels_of<kPack>(group, rows.channel);
  float sum[kPack] = {}, product[kPack] = {};
  for_each_pack<kInFlight, kSumOrder>(
      rows,
      [&](int index) { return read_pack<Stored, kPack, Reuse::Again>(params, maps, rows, index); },
      [&](const Read<Stored, kPack>& read, int index, int) {
        float gradient[kPack], distance[kPack];
        const ChannelPack<Stored, kPack> fold = fold_of(params, read);
        if (params.residual_gradient != nullptr)
          store_channels(params.residual_gradient, rows.element(index), fold);
        through_activation<Factors>(params, scaled<Factors>(fold, read.factor), read.input,
                                    channels, gradient, distance);
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          sum[k] += gradient[k];
          product[k] += gradient[k] * distance[k];
        }
      });
  reduce_block<AddSums>(sums, threads, packs, rows.count, sum, product);
}

template <typename Stored, typename Factors, int kPack>
__device__ void differentiate_rows(const NormBackward& params, const RowMaps<Factors>& maps,
                                   const ThreadRows<kPack>& rows, const GroupCoefficients& group) {
  const Channels<kPack> channels = channels_of<kPack>(group, rows.channel);
  float gradient_mean[kPack], slope[kPack];
  read_row(group.gradient_mean, rows.channel, gradient_mean);
  read_row(group.slope, rows.channel, slope);
  for_each_pack<kInFlight, opposite(kSumOrder)>(
      rows,
      [&](int index) { return read_pack<Stored, kPack, Reuse::Last>(params, maps, rows, index); },
      [&](const Read<Stored, kPack>& read, int index, int) {
        const ChannelPack<Stored, kPack> behind =
            scaled<Factors>(fold_of(params, read), read.factor);
        store_channels(params.input_gradient, rows.element(index),
                       input_gradient_pack<Factors>(params, behind, read.input, channels,
                                                    gradient_mean, slope));
      });
}

__device__ std::int64_t own_channel(int width) {
  return std::int64_t{blockIdx.y} * width + threadIdx.x;
}

/// What is known before the sums. Synchronise before reading.
__device__ void set_coefficients(const NormBackward& params, int width, GroupCoefficients& group) {
  const std::int64_t c = own_channel(width);
  if (threadIdx.x >= width || c >= params.map.channels) return;
  const NormCoefficients one =
      norm_coefficients(params.mean[c], params.inverse_deviation[c], params.weight, params.bias, c);
  group.mean[threadIdx.x] = one.mean;
  group.scale[threadIdx.x] = one.scale;
  group.bias[threadIdx.x] = one.bias;
}

/// What the sums add; one block per group writes the gradients of weight and bias.
__device__ void finish_sums(const NormBackward& params, int width, const ChannelSums& all,
                            GroupCoefficients& group) {
  const std::int64_t c = own_channel(width);
  if (threadIdx.x >= width || c >= params.map.channels) return;
  const float inverse = params.inverse_deviation[c];
  const NormGradientCoefficients one =
      gradient_coefficients(all.first, all.second, inverse, static_cast<float>(params.map.rows));
  group.gradient_mean[threadIdx.x] = one.gradient_mean;
  group.slope[threadIdx.x] = one.slope;
  if (blockIdx.x != 0) return;
  if (params.weight_gradient != nullptr) params.weight_gradient[c] = all.second * inverse;
  if (params.bias_gradient != nullptr) params.bias_gradient[c] = all.first;
}

template <typename Stored, int kPack, typename Factors>
__global__ void __launch_bounds__(kNormSumThreads, kResident)
    sum_kernel(NormBackward params, RowMaps<Factors> maps, PartialSums partials, int packs) {
  __shared__ BlockSums<kNormSumThreads> sums;
  __shared__ GroupCoefficients group;
  const int width = packs * kPack;
  const ThreadRows<kPack> rows(params.map, packs);
  wait_for_previous_kernel();
  set_coefficients(params, width, group);
  __syncthreads();
  sum_rows<Stored>(params, maps, rows, packs, group, sums);
  let_next_kernel_begin();
  const ChannelSums all = cluster_total<AddSums>(sums, width);
  if (threadIdx.x < width) write_partial(partials, params.map.channels, own_channel(width), all);
  leave_cluster();
}

template <typename Stored, int kPack, typename Factors>
__global__ void __launch_bounds__(kNormSumThreads, kResident)
    differentiate_kernel(NormBackward params, RowMaps<Factors> maps, PartialSums partials,
                         int packs) {
  __shared__ BlockSums<kNormSumThreads> sums;
  __shared__ GroupCoefficients group;
  const int width = packs * kPack;
  const ThreadRows<kPack> rows(params.map, packs);
  wait_for_previous_kernel();
  set_coefficients(params, width, group);
  const ChannelSums all = read_partials<AddSums>(sums, partials, params.map.channels, width);
  finish_sums(params, width, all, group);
  __syncthreads();
  if (params.input_gradient != nullptr) differentiate_rows<Stored>(params, maps, rows, group);
}

/// The elementwise kernel of two. A residual's gradient is already behind the activation: one map
/// to read instead of two and a mask.
NormBackward second_pass(NormBackward params) {
  if (params.residual_gradient == nullptr) return params;
  params.output_gradient = params.residual_gradient;
  params.added_gradient = nullptr;
  params.relu_mask = nullptr;
  params.activation = Activation::None;
  return params;
}

}  // namespace

void batch_norm_backward(const NormBackward& params, void* scratch, cudaStream_t stream) {
  constexpr std::string_view who = "batch_norm_backward";
  if (params.map.rows == 0 || params.map.channels == 0) return;
  const bool aligned =
      aligned_for_vectors(params.output_gradient, params.added_gradient, params.input,
                          params.input_gradient, params.residual_gradient);
  ensure(params.relu_mask == nullptr || aligned,
         "maps with a ReLU mask start at multiples of 16 bytes");
  const bool has_every_pixel = params.added_gradient == nullptr || params.added_pixels.height == 0;
  const auto resident = plan_resident_norm(params.map, aligned, kMaxResidentBytes);
  if (resident && has_every_pixel) return backward_resident(params, *resident, stream);
  const NormPlan plan = plan_norm(params.map, aligned);
  const AddedPixels pixels(has_every_pixel ? EvenPixels{1, 1, 1} : params.added_pixels);
  const PartialSums partials(scratch, plan.parts(), params.map.channels);
  LaunchShape shape = plan.elementwise_shape(kResident);
  if (params.input_gradient == nullptr) shape.grid.x = 1;  // the last sums are left
  with_norm_type(params.map.type, plan.pack,
                 [&]<typename Stored, int pack>(Stored, std::integral_constant<int, pack>) {
                   with_factors(params.factors, params.map, [&]<typename Factors>(Factors factors) {
                     const RowMaps<Factors> maps = {pixels, factors};
                     launch_overlapped(who, sum_kernel<Stored, pack, Factors>, plan.sum_shape(),
                                       stream, params, maps, partials, plan.packs);
                     launch_overlapped(who, differentiate_kernel<Stored, pack, Factors>, shape,
                                       stream, second_pass(params), maps, partials, plan.packs);
                   });
                 });
}

}  // namespace triaccel::kernels::cuda
