#pragma once

#include "triaccel/kernels/norm/batch_norm_math.h"
#include "triaccel/kernels/norm/batch_norm_rows.cuh"

namespace triaccel::kernels::cuda {

/// Two sums over rows of one channel: mean and squares (as Moments), or gradient and
/// gradient * distance.
struct ChannelSums {
  float count = 0;  // rows behind them
  float first = 0;
  float second = 0;
};

struct MergeMoments {
  template <typename Entry>
  __device__ ChannelSums operator()(int entries, Entry entry) const {
    const Moments all = merged_moments(entries, [&](int i) {
      const ChannelSums one = entry(i);
      return Moments{one.count, one.first, one.second};
    });
    return {all.count, all.mean, all.squares};
  }
};

struct AddSums {
  template <typename Entry>
  __device__ ChannelSums operator()(int entries, Entry entry) const {
    ChannelSums all;
    for (int i = 0; i < entries; ++i) {
      const ChannelSums one = entry(i);
      all.first += one.first;
      all.second += one.second;
    }
    return all;
  }
};

/// Where the threads of a block add up, and what the cluster reads of it.
template <int kBlock>
struct BlockSums {
  float lane_count[kBlock], lane_first[kBlock], lane_second[kBlock];
  float count;
  GroupRow first, second;
};

/// Every thread's sums before they are added; the four words between rows keep the reads of
/// neighbouring channels in different banks.
template <int kPack, int kBlock>
struct ThreadSums {
  float slot_count[kBlock];
  float first[kPack][kBlock + 4], second[kPack][kBlock + 4];
};

/// Combines entry(i, channel), i < entries, of each of `width` channels into sums.first and
/// sums.second, first in as many lanes a channel as the block has. Synchronise before reading.
template <typename Combine, int kBlock, typename Entry>
__device__ void reduce_entries(BlockSums<kBlock>& sums, int width, int entries, Entry entry) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lanes = min(static_cast<int>(blockDim.x) / width, entries);
  const int lane = thread / width, channel = thread % width;
  if (lane < lanes) {
    const ChannelSums all = Combine{}((entries - lane + lanes - 1) / lanes,
                                      [&](int i) { return entry(lane + i * lanes, channel); });
    sums.lane_count[thread] = all.count;
    sums.lane_first[thread] = all.first;
    sums.lane_second[thread] = all.second;
  }
  __syncthreads();
  if (thread < width) {
    const ChannelSums all = Combine{}(lanes, [&](int i) {
      const int from = i * width + thread;
      return ChannelSums{sums.lane_count[from], sums.lane_first[from], sums.lane_second[from]};
    });
    if (thread == 0) sums.count = all.count;
    sums.first[thread] = all.first;
    sums.second[thread] = all.second;
  }
}

/// The block's sums from each thread's own.
template <typename Combine, int kPack, int kBlock>
__device__ void reduce_block(BlockSums<kBlock>& sums, ThreadSums<kPack, kBlock>& threads, int packs,
                             int count, const float (&first)[kPack], const float (&second)[kPack]) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread % packs == 0) threads.slot_count[thread / packs] = static_cast<float>(count);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    threads.first[k][thread] = first[k];
    threads.second[k][thread] = second[k];
  }
  __syncthreads();
  const int slots = static_cast<int>(blockDim.x) / packs;
  reduce_entries<Combine>(sums, packs * kPack, slots, [&](int slot, int channel) {
    const int k = channel % kPack, from = slot * packs + channel / kPack;
    return ChannelSums{threads.slot_count[slot], threads.first[k][from], threads.second[k][from]};
  });
}

/// Blocks of this cluster; a chip without clusters is never asked for more than one.
__device__ inline int cluster_blocks() {
#if __CUDA_ARCH__ >= 900
  return static_cast<int>(__clusterSizeInBlocks());
#else
  return 1;
#endif
}

/// The cluster's sums of channel threadIdx.x, in threads below `width`. leave_cluster() must
/// follow: a block's memory is read by the others.
template <typename Combine, int kBlock>
__device__ ChannelSums cluster_total(const BlockSums<kBlock>& sums, int width) {
  const int thread = static_cast<int>(threadIdx.x);
#if __CUDA_ARCH__ >= 900
  const int blocks = cluster_blocks();
  if (blocks > 1) {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    ChannelSums all;
    if (thread < width)
      all = Combine{}(blocks, [&](int rank) {
        const auto* other = static_cast<const BlockSums<kBlock>*>(
            __cluster_map_shared_rank(&sums, static_cast<unsigned>(rank)));
        return ChannelSums{other->count, other->first[thread], other->second[thread]};
      });
    __cluster_barrier_arrive();
    return all;
  }
#endif
  __syncthreads();
  if (thread >= width) return {};
  return {sums.count, sums.first[thread], sums.second[thread]};
}

__device__ inline void leave_cluster() {
#if __CUDA_ARCH__ >= 900
  if (cluster_blocks() > 1) __cluster_barrier_wait();
#endif
}

/// Sums of the clusters, on their way from the first kernel to the second: [parts, channels] pairs,
/// then [parts] counts.
struct PartialSums {
  float2* sums = nullptr;
  float* counts = nullptr;
  int parts = 0;

  __host__ __device__ PartialSums(void* scratch, int count, std::int64_t channels)
      : sums(static_cast<float2*>(scratch)),
        counts(static_cast<float*>(scratch) + 2 * count * channels),
        parts(count) {}
};

/// Called by the threads below the group's width, in every block.
__device__ inline void write_partial(const PartialSums& partials, std::int64_t channels,
                                     std::int64_t map_channel, ChannelSums all) {
  const int blocks = cluster_blocks();
  if (static_cast<int>(blockIdx.x) % blocks != 0 || map_channel >= channels) return;
  const std::int64_t part = static_cast<int>(blockIdx.x) / blocks;
  partials.sums[part * channels + map_channel] = {all.first, all.second};
  if (map_channel == 0) partials.counts[part] = all.count;
}

/// All parts of the group's channels together, in threads below `width`.
template <typename Combine, int kBlock>
__device__ ChannelSums read_partials(BlockSums<kBlock>& sums, const PartialSums& partials,
                                     std::int64_t channels, int width) {
  const std::int64_t group = std::int64_t{blockIdx.y} * width;
  reduce_entries<Combine>(sums, width, partials.parts, [&](int part, int channel) {
    const std::int64_t map_channel = min(group + channel, channels - 1);
    const float2 pair = partials.sums[part * channels + map_channel];
    return ChannelSums{partials.counts[part], pair.x, pair.y};
  });
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= width) return {};
  return {sums.count, sums.first[thread], sums.second[thread]};
}

}  // namespace triaccel::kernels::cuda
