#include "triaccel/kernels/common/even_pixels_math.h"
#include "triaccel/kernels/norm/batch_norm_backward.cuh"
#include "triaccel/kernels/norm/batch_norm_sums.cuh"

namespace triaccel::kernels::cuda {
namespace {

// Of a map; above, two kernels are faster.
constexpr std::int64_t kMostResidentBytes = 1280 << 10;
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
  std::uint8_t gates;
};

/// Where the added gradient and the factor of a row lie.
template <typename Factors>
struct RowMaps {
  AddedPixels added;
  Factors factors;
};

/// Where the added gradient's pack lies that belongs to `element` of the map; -1: nowhere, it is
/// zero.
__device__ std::int64_t added_element(const NormBackward& how, const AddedPixels& pixels,
                                      std::int64_t element, std::int64_t row) {
  if (how.added_pixels.height == 0) return element;
  const std::int64_t even = pixels.even_of(static_cast<std::int32_t>(row));
  return even < 0 ? -1 : element + (even - row) * how.map.channels;
}

template <typename Stored, int kPack, Reuse kReuse, typename Factors>
__device__ Read<Stored, kPack> read_pack(const NormBackward& how, const RowMaps<Factors>& maps,
                                         const ThreadRows<kPack>& rows, int index) {
  const std::int64_t element = rows.element(index);
  Read<Stored, kPack> read = {};
  read.gradient = load_channels<Stored, kPack, kReuse>(how.output_gradient, element);
  read.input = load_channels<Stored, kPack, kReuse>(how.input, element);
  if (how.added_gradient != nullptr) {
    const std::int64_t added = added_element(how, maps.added, element, rows.row(index));
    if (added >= 0) read.added = load_channels<Stored, kPack, kReuse>(how.added_gradient, added);
  }
  read.factor = maps.factors.template of<Stored>(rows.row(index));
  if (how.gates != nullptr) read.gates = how.gates[element / kPack];
  return read;
}

template <typename Stored, int kPack>
__device__ ChannelPack<Stored, kPack> fold_of(const NormBackward& how,
                                              const Read<Stored, kPack>& read) {
  return folded(how, read.gradient, read.added, read.gates);
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
__device__ void sum_rows(const NormBackward& how, const RowMaps<Factors>& maps,
                         const ThreadRows<kPack>& rows, int packs, const GroupCoefficients& group,
                         BlockSums<kBlock>& sums) {
  __shared__ ThreadSums<kPack, kBlock> threads;
  const Channels<kPack> channels = channels_of<kPack>(group, rows.channel);
  float sum[kPack] = {}, product[kPack] = {};
  for_each_pack<kInFlight, kSumOrder>(
      rows,
      [&](int index) { return read_pack<Stored, kPack, Reuse::Again>(how, maps, rows, index); },
      [&](const Read<Stored, kPack>& read, int index, int) {
        float gradient[kPack], distance[kPack];
        const ChannelPack<Stored, kPack> fold = fold_of(how, read);
        if (how.residual_gradient != nullptr)
          store_channels(how.residual_gradient, rows.element(index), fold);
        gate<Factors>(how, scaled<Factors>(fold, read.factor), read.input, channels, gradient,
                      distance);
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          sum[k] += gradient[k];
          product[k] += gradient[k] * distance[k];
        }
      });
  reduce_block<AddSums>(sums, threads, packs, rows.count, sum, product);
}

template <typename Stored, typename Factors, int kPack>
__device__ void differentiate_rows(const NormBackward& how, const RowMaps<Factors>& maps,
                                   const ThreadRows<kPack>& rows, const GroupCoefficients& group) {
  const Channels<kPack> channels = channels_of<kPack>(group, rows.channel);
  float gradient_mean[kPack], slope[kPack];
  read_row(group.gradient_mean, rows.channel, gradient_mean);
  read_row(group.slope, rows.channel, slope);
  for_each_pack<kInFlight, opposite(kSumOrder)>(
      rows,
      [&](int index) { return read_pack<Stored, kPack, Reuse::Last>(how, maps, rows, index); },
      [&](const Read<Stored, kPack>& read, int index, int) {
        const ChannelPack<Stored, kPack> behind = scaled<Factors>(fold_of(how, read), read.factor);
        store_channels(
            how.input_gradient, rows.element(index),
            input_gradient_pack<Factors>(how, behind, read.input, channels, gradient_mean, slope));
      });
}

__device__ std::int64_t own_channel(int width) {
  return std::int64_t{blockIdx.y} * width + threadIdx.x;
}

/// What is known before the sums. Synchronise before reading.
__device__ void set_coefficients(const NormBackward& how, int width, GroupCoefficients& group) {
  const std::int64_t c = own_channel(width);
  if (threadIdx.x >= width || c >= how.map.channels) return;
  const NormCoefficients one =
      norm_coefficients(how.mean[c], how.inverse_deviation[c], how.weight, how.bias, c);
  group.mean[threadIdx.x] = one.mean;
  group.scale[threadIdx.x] = one.scale;
  group.bias[threadIdx.x] = one.bias;
}

/// What the sums add; one block per group writes the gradients of weight and bias.
__device__ void finish_sums(const NormBackward& how, int width, const ChannelSums& all,
                            GroupCoefficients& group) {
  const std::int64_t c = own_channel(width);
  if (threadIdx.x >= width || c >= how.map.channels) return;
  const float inverse = how.inverse_deviation[c];
  const NormGradientCoefficients one =
      gradient_coefficients(all.first, all.second, inverse, static_cast<float>(how.map.rows));
  group.gradient_mean[threadIdx.x] = one.gradient_mean;
  group.slope[threadIdx.x] = one.slope;
  if (blockIdx.x != 0) return;
  if (how.weight_gradient != nullptr) how.weight_gradient[c] = all.second * inverse;
  if (how.bias_gradient != nullptr) how.bias_gradient[c] = all.first;
}

template <typename Stored, int kPack, typename Factors>
__global__ void __launch_bounds__(kNormSumThreads, kResident)
    sum_kernel(NormBackward how, RowMaps<Factors> maps, PartialSums partials, int packs) {
  __shared__ BlockSums<kNormSumThreads> sums;
  __shared__ GroupCoefficients group;
  const int width = packs * kPack;
  const ThreadRows<kPack> rows(how.map, packs);
  wait_for_previous_kernel();
  set_coefficients(how, width, group);
  __syncthreads();
  sum_rows<Stored>(how, maps, rows, packs, group, sums);
  let_next_kernel_begin();
  const ChannelSums all = cluster_total<AddSums>(sums, width);
  if (threadIdx.x < width) write_partial(partials, how.map.channels, own_channel(width), all);
  leave_cluster();
}

template <typename Stored, int kPack, typename Factors>
__global__ void __launch_bounds__(kNormSumThreads, kResident)
    differentiate_kernel(NormBackward how, RowMaps<Factors> maps, PartialSums partials, int packs) {
  __shared__ BlockSums<kNormSumThreads> sums;
  __shared__ GroupCoefficients group;
  const int width = packs * kPack;
  const ThreadRows<kPack> rows(how.map, packs);
  wait_for_previous_kernel();
  set_coefficients(how, width, group);
  const ChannelSums all = read_partials<AddSums>(sums, partials, how.map.channels, width);
  finish_sums(how, width, all, group);
  __syncthreads();
  if (how.input_gradient != nullptr) differentiate_rows<Stored>(how, maps, rows, group);
}

/// The elementwise kernel of two. A residual's gradient is already behind the activation: one map
/// to read instead of two and gates.
NormBackward second_pass(NormBackward how) {
  if (how.residual_gradient == nullptr) return how;
  how.output_gradient = how.residual_gradient;
  how.added_gradient = nullptr;
  how.gates = nullptr;
  how.activation = Activation::None;
  return how;
}

}  // namespace

void batch_norm_backward(const NormBackward& how, void* scratch, cudaStream_t stream) {
  constexpr std::string_view who = "batch_norm_backward";
  if (how.map.rows == 0 || how.map.channels == 0) return;
  const bool aligned = aligned_for_vectors(how.output_gradient, how.added_gradient, how.input,
                                           how.input_gradient, how.residual_gradient);
  ensure(how.gates == nullptr || aligned, "maps with gates start at multiples of 16 bytes");
  const bool has_every_pixel = how.added_gradient == nullptr || how.added_pixels.height == 0;
  const auto resident = plan_resident_norm(how.map, aligned, kMostResidentBytes);
  if (resident && has_every_pixel) return backward_resident(how, *resident, stream);
  const NormPlan plan = plan_norm(how.map, aligned);
  const AddedPixels pixels(has_every_pixel ? EvenPixels{1, 1, 1} : how.added_pixels);
  const PartialSums partials(scratch, plan.parts(), how.map.channels);
  LaunchShape shape = plan.elementwise_shape(kResident);
  if (how.input_gradient == nullptr) shape.grid.x = 1;  // the last sums are left
  with_norm_type(how.map.type, plan.pack,
                 [&]<typename Stored, int pack>(Stored, std::integral_constant<int, pack>) {
                   with_factors(how.factors, how.map, [&]<typename Factors>(Factors factors) {
                     const RowMaps<Factors> maps = {pixels, factors};
                     launch_overlapped(who, sum_kernel<Stored, pack, Factors>, plan.sum_shape(),
                                       stream, how, maps, partials, plan.packs);
                     launch_overlapped(who, differentiate_kernel<Stored, pack, Factors>, shape,
                                       stream, second_pass(how), maps, partials, plan.packs);
                   });
                 });
}

}  // namespace triaccel::kernels::cuda
