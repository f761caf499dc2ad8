#pragma once

#include "triaccel/kernels/common/cluster_mailbox.cuh"
#include "triaccel/kernels/norm/batch_norm_factors.cuh"
#include "triaccel/kernels/norm/batch_norm_rows.cuh"

namespace triaccel::kernels::cuda {

/// Maps that one kernel keeps in registers between the sums and what follows from them. A cluster
/// takes one pack of channels and each of its blocks a run of rows, so that all threads of a block
/// share their channels. Within a warp, numbers by channel lie in lane % kPack.

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffff;

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }

/// The rows of one block: thread t takes rows t, t + threads, ...
template <int kPack>
struct ResidentRows {
  std::int64_t first = 0;  // element of the thread's first pack
  std::int64_t step = 0;
  int count = 0;       // packs of this thread
  int block_rows = 0;  // of a full block

  __device__ ResidentRows(const NormMap& map, int rows_of_a_block) : block_rows(rows_of_a_block) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const std::int64_t row = std::int64_t{blockIdx.x} * block_rows + thread;
    first = row * map.channels + std::int64_t{blockIdx.y} * kPack;
    step = threads * map.channels;
    count = (rows_of(map, static_cast<int>(blockIdx.x)) - thread + threads - 1) / threads;
  }

  __device__ int rows_of(const NormMap& map, int block) const {
    const auto before = static_cast<int>(map.rows) - block * block_rows;
    return max(0, min(before, block_rows));
  }

  __device__ std::int64_t element(int i) const { return first + i * step; }
  __device__ int row(int i) const {
    return static_cast<int>(blockIdx.x) * block_rows + static_cast<int>(threadIdx.x) +
           i * static_cast<int>(blockDim.x);
  }

  /// Packs past the last row are zero.
  template <typename Stored, int kTurns>
  __device__ void load(const void* map, ChannelPack<Stored, kPack> (&packs)[kTurns]) const {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      packs[i] = {};
      if (i < count) packs[i] = load_channels<Stored, kPack>(map, element(i));
    }
  }

  template <typename Stored, int kTurns, typename Factors>
  __device__ void load_factors(const Factors& factors, float (&values)[kTurns]) const {
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      values[i] = i < count ? factors.template of<Stored>(row(i)) : 1.0f;
  }

  /// Stores made(i) as the thread's pack i, one after the other.
  template <int kTurns, typename Made>
  __device__ void store(void* map, Made made) const {
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      if (i < count) store_channels(map, element(i), made(i));
  }
};

/// Keeps the compiler from holding numbers that it has unpacked until their next use: as halves
/// they take half the registers.
template <typename Stored, int kPack, int kTurns>
__device__ void stay_packed(ChannelPack<Stored, kPack> (&packs)[kTurns]) {
#pragma unroll
  for (auto& pack : packs)
#pragma unroll
    for (auto& raw : pack.raw) asm volatile("" : "+r"(raw));
}

/// Numbers of the block's channels that every thread reads.
template <int kPack>
struct alignas(16) ResidentRow {
  float values[kPack];

  __device__ void read(float (&to)[kPack]) const {
#pragma unroll
    for (int k = 0; k < kPack; ++k) to[k] = values[k];
  }
};

/// Over the lanes of one channel; all of them get the same bits.
template <int kPack>
__device__ float sum_over_lanes(float value) {
#pragma unroll
  for (int mask = kPack; mask < kWarp; mask *= 2) value += __shfl_xor_sync(kAllLanes, value, mask);
  return value;
}

/// A warp's sum of every channel: each exchange halves the channels a lane still answers for.
template <int kPack>
__device__ float sum_over_warp(float (&values)[kPack]) {
#pragma unroll
  for (int half = kPack / 2; half > 0; half /= 2) {
    const bool upper = (lane_id() & half) != 0;
#pragma unroll
    for (int k = 0; k < half; ++k) {
      const float given = upper ? values[k] : values[k + half];
      const float kept = upper ? values[k + half] : values[k];
      values[k] = kept + __shfl_xor_sync(kAllLanes, given, half);
    }
  }
  return sum_over_lanes<kPack>(values[0]);
}

/// Where the warps of a block leave their sums; used once per kernel.
template <int kPack>
using WarpSums = float[kResidentThreads / kWarp * kPack];

/// kSums sums over the block, in every warp. `values` is used up.
template <int kPack, int kSums>
__device__ void sum_over_block(float (&values)[kSums][kPack], WarpSums<kPack> (&warps)[kSums],
                               float (&totals)[kSums]) {
  const int lane = lane_id(), entries = static_cast<int>(blockDim.x) / kWarp * kPack;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    const float sum = sum_over_warp(values[s]);
    if (lane < kPack) warps[s][warp_id() * kPack + lane] = sum;
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kResidentThreads * kPack / kWarp; i += kWarp)
      if (i + lane < entries) sum += warps[s][i + lane];
    totals[s] = sum_over_lanes<kPack>(sum);
  }
}

/// From lane % kPack to all channels in every lane.
template <int kPack>
__device__ void spread(float value, float (&all)[kPack]) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) all[k] = __shfl_sync(kAllLanes, value, k);
}

/// Two numbers per channel of each block of the cluster, in every block.
template <int kPack>
class ClusterParts {
 public:
  /// By all threads, at the kernel's start.
  __device__ void open() {
    if (blocks() > 1) mailbox_.open(blocks() * kPack * static_cast<int>(sizeof(float2)));
  }

  /// By all threads: gives the block's numbers, which every warp holds, to all blocks. Theirs are
  /// here for the first warp; nothing orders the others behind it.
  __device__ void exchange(float2 own) {
    const int lane = lane_id();
    if (blocks() > 1) {
      mailbox_.wait_for_peers();
      const int warps = static_cast<int>(blockDim.x) / kWarp;
      for (int rank = warp_id(); rank < blocks(); rank += warps)
        if (lane < kPack) mailbox_.send(rank, &parts_[blockIdx.x][lane], own);
      if (warp_id() == 0) mailbox_.wait_for_mail();
    } else if (warp_id() == 0) {
      if (lane < kPack) parts_[0][lane] = own;
      __syncwarp();
    }
  }

  /// The lane's channel of one block.
  __device__ float2 of(int block) const { return parts_[block][lane_id() % kPack]; }

  /// value(block) of every block, added by the lanes of one warp.
  template <typename Value>
  __device__ float sum(Value value) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kMaxCluster; i += kWarp / kPack)
      if (i + lane_id() / kPack < blocks()) sum += value(i + lane_id() / kPack);
    return sum_over_lanes<kPack>(sum);
  }

 private:
  __device__ static int blocks() { return static_cast<int>(gridDim.x); }

  ClusterMailbox mailbox_;
  float2 parts_[kMaxCluster][kPack];
};

/// body(stored type, turns as a constant no smaller than `turns`).
template <typename Body>
void with_resident_type(FloatType type, int turns, Body body) {
  with_stored_type(type, [&]<typename Stored>(Stored stored) {
    if (turns <= kFewTurns)
      body(stored, std::integral_constant<int, kFewTurns>{});
    else
      body(stored, std::integral_constant<int, kMaxTurns>{});
  });
}

}  // namespace triaccel::kernels::cuda
