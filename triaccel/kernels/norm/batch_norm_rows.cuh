#pragma once

#include "triaccel/kernels/common/channel_pack.cuh"
#include "triaccel/kernels/norm/batch_norm.h"
#include "triaccel/kernels/norm/batch_norm_math.h"
#include "triaccel/kernels/norm/batch_norm_plan.cuh"

namespace triaccel::kernels::cuda {

/// The pack's ReLU mask, one bit per channel. A NaN has one, as in the mask codecs.
template <typename Stored, int kPack>
__device__ std::uint8_t relu_mask_of(const ChannelPack<Stored, kPack>& output) {
  unsigned relu_mask = 0;
#pragma unroll
  for (int k = 0; k < kPack; ++k) relu_mask |= (output.value(k) <= 0.0f ? 0u : 1u) << k;
  return static_cast<std::uint8_t>(relu_mask);
}

/// One thread's share of a map: `count` packs of the same channels, row_blocks * slots rows apart.
/// The blocks go through the map side by side, so that backwards the last rows are still in cache.
template <int kPack>
struct ThreadRows {
  std::int64_t first = 0;  // element of its first pack
  std::int64_t step = 0;   // elements from one of its packs to the next
  std::int64_t first_row = 0, row_step = 0;
  int count = 0;
  int channel = 0;  // of the group

  __device__ ThreadRows(const NormMap& map, int packs) {
    const int slots = static_cast<int>(blockDim.x) / packs;
    const int slot = static_cast<int>(threadIdx.x) / packs;
    channel = (static_cast<int>(threadIdx.x) % packs) * kPack;
    const std::int64_t map_channel = std::int64_t{blockIdx.y} * packs * kPack + channel;
    first_row = std::int64_t{blockIdx.x} * slots + slot;
    row_step = std::int64_t{gridDim.x} * slots;
    first = first_row * map.channels + map_channel;
    step = row_step * map.channels;
    if (slot < slots && map_channel < map.channels && first_row < map.rows)
      count = static_cast<int>((map.rows - 1 - first_row) / row_step) + 1;
  }

  __device__ std::int64_t element(int index) const { return first + index * step; }
  __device__ std::int64_t row(int index) const { return first_row + index * row_step; }
};

/// In which direction a kernel goes through a map. The second kernel of two goes the other way than
/// the first, whose last rows are still in cache.
enum class Order { Forwards, Backwards };

constexpr Order opposite(Order order) {
  return order == Order::Forwards ? Order::Backwards : Order::Forwards;
}

/// use(load(index), index, turn) for all of a thread's packs; turns count from 0, whatever the
/// order; kInFlight loads are on their way at once.
template <int kInFlight, Order kOrder, int kPack, typename Load, typename Use>
__device__ void for_each_pack(const ThreadRows<kPack>& rows, Load load, Use use) {
  const auto index = [&](int turn) {
    return kOrder == Order::Backwards ? rows.count - 1 - turn : turn;
  };
  for (int i = 0; i < rows.count; i += kInFlight) {
    decltype(load(0)) batch[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)  // the last one again costs less than a branch
      batch[k] = load(index(min(i + k, rows.count - 1)));
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (i + k < rows.count) use(batch[k], index(i + k), i + k);
  }
}

/// A thread's own channels, in registers.
template <int kPack>
struct Channels {
  float mean[kPack], scale[kPack], bias[kPack];

  __device__ float normalised(int k, float x) const {
    return kernels::normalised(x, mean[k], scale[k], bias[k]);
  }
};

/// One number per channel, shared by a block.
using GroupRow = float[kMaxGroupChannels];

/// The thread's own channels of a row.
template <int kPack>
__device__ void read_row(const GroupRow& row, int channel, float (&values)[kPack]) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) values[k] = row[channel + k];
}

}  // namespace triaccel::kernels::cuda
