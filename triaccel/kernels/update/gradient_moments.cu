#include "triaccel/kernels/update/gradient_moments.h"

#include "triaccel/kernels/common/block_reduce.cuh"
#include "triaccel/kernels/common/chunk_loop.cuh"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/update/gradient_moments_list.h"
#include "triaccel/kernels/update/gradient_moments_math.h"

namespace triaccel::kernels::cuda {
namespace {

static_assert(kThreads * kElementsPerLane == kChunk, "one thread is one lane of a chunk");

/// A block waits for each chunk before it asks for the next: others must keep the memory busy.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kBlocksAtOnce = 4;  // all that Turing can hold
#else
constexpr int kBlocksAtOnce = 6;
#endif

struct AddMoments {
  template <typename Moments>
  __device__ void operator()(Moments& all, const Moments& part) const {
    add_moments(all, part);
  }
};

/// This thread's elements of a chunk: packs of 16 bytes, between those of neighbouring threads.
/// What lies beyond the end of the segment is zero, which adds nothing to any moment.
template <typename Stored>
struct Lane {
  using Word = typename Stored::Word;
  static constexpr int kPack = 16 / sizeof(Word);
  static constexpr int kPerRegister = 4 / sizeof(Word);

  const Word* first;
  std::int32_t left;  // elements from there to the end of the segment
  std::uint32_t registers[kElementsPerLane / kPerRegister];

  __device__ static int offset(int i) { return i / kPack * kThreads * kPack + i % kPack; }

  /// Whole packs only.
  __device__ void load() {
#pragma unroll
    for (int i = 0; i < kElementsPerLane; i += kPack) {
      uint4 pack = {};
      if (offset(i) < left) pack = *reinterpret_cast<const uint4*>(first + offset(i));
      std::uint32_t* to = registers + i / kPerRegister;
      to[0] = pack.x;
      to[1] = pack.y;
      to[2] = pack.z;
      to[3] = pack.w;
    }
  }

  __device__ float in_register(int i) const {
    const std::uint32_t bits = registers[i / kPerRegister];
    if constexpr (kPerRegister == 1)
      return float_from_bits(bits);
    else
      return Stored::value(static_cast<Word>(bits >> i % 2 * 16));
  }

  __device__ float in_memory(int i) const {
    return offset(i) < left ? Stored::value(first[offset(i)]) : 0.0f;
  }

  __device__ void next_chunk() {
    first += kChunk;
    left -= kChunk;
  }
};

/// What one thread sums over its chunks.
using SegmentMoments = ThreadMoments<double>;

__device__ void add_lane(SegmentMoments& mine, const LaneMoments& lane) {
  mine.sum += double{lane.sum};
  mine.sum_of_squares += double{lane.sum_of_squares};
  mine.absolute_maximum = fmaxf(mine.absolute_maximum, lane.absolute_maximum);
  mine.fp16_zeros += lane.fp16_zeros;
  mine.fp16_subnormals += lane.fp16_subnormals;
  mine.nonfinite += lane.nonfinite;
}

/// The scales are read while the first loads are under way.
template <typename Stored>
__device__ SegmentMoments segment_moments(const MomentsTensor& tensor,
                                          const MomentsSegment& segment, MomentsScales scales) {
  constexpr int kPack = Lane<Stored>::kPack;
  const auto* from = static_cast<const typename Stored::Word*>(tensor.gradient) + segment.begin;
  const auto ahead = static_cast<std::int32_t>(threadIdx.x) * kPack;
  Lane<Stored> lane = {.first = from + ahead, .left = segment.count - ahead, .registers = {}};
  const auto in_register = [&](int i) { return lane.in_register(i); };
  const auto in_memory = [&](int i) { return lane.in_memory(i); };
  const auto read_scales = [&] { return gradient_scales(scales, tensor.layer, tensor.type); };
  SegmentMoments mine;
  if (aligned_for_vectors(from) && segment.count % kPack == 0) {
    lane.load();
    const GradientScales factors = read_scales();
    for (std::int32_t done = 0; done < segment.count; done += kChunk) {
      add_lane(mine, lane_moments(in_register, in_memory, factors));
      lane.next_chunk();
      lane.load();  // reads nothing beyond the last
    }
  } else {
    const GradientScales factors = read_scales();
    for (std::int32_t done = 0; done < segment.count; done += kChunk) {
      add_lane(mine, lane_moments(in_memory, in_memory, factors));
      lane.next_chunk();
    }
  }
  return mine;
}

/// The moments of a warp, in its lane 0. Only the sums take a tree of shuffles; a maximum of
/// magnitudes is one of their bits.
__device__ ChunkMoments moments_of_warp(const SegmentMoments& mine) {
  const auto add = [](double& all, double part) { all += part; };
  ChunkMoments all;
  all.sum = reduce_warp(mine.sum, add);
  all.sum_of_squares = reduce_warp(mine.sum_of_squares, add);
  all.absolute_maximum = float_from_bits(maximum_of_warp(bits_of_float(mine.absolute_maximum)));
  const auto sum = [](auto count) {
    return static_cast<std::int32_t>(sum_of_warp(static_cast<std::uint32_t>(count)));
  };
  all.nonfinite = sum(mine.nonfinite);
  all.fp16_zeros = sum(mine.fp16_zeros);
  all.fp16_subnormals = sum(mine.fp16_subnormals);
  return all;
}

/// One block per segment; the last block of a layer adds its segments up.
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    moments_kernel(const __grid_constant__ MomentsList list, MomentsScales scales,
                   MomentsScratch scratch, LayerMoments* layers) {
  const MomentsSegment segment = locate_segment(list, static_cast<std::int32_t>(blockIdx.x));
  const MomentsTensor& tensor = list.tensors[segment.index];
  SegmentMoments mine;
  wait_for_previous_kernel();
  with_stored_type(tensor.type, [&]<typename Stored>(Stored) {
    mine = segment_moments<Stored>(tensor, segment, scales);
  });
  ChunkMoments all = join_warps<kThreads>(moments_of_warp(mine), AddMoments{});
  if (threadIdx.x == 0) {
    all.count = segment.count;
    scratch.chunks[blockIdx.x] = all;
  }
  const auto segments = static_cast<std::uint32_t>(tensor.layer_end - tensor.layer_begin);
  if (!is_last_block(scratch.tickets + tensor.layer, segments)) return;
  LayerMoments total;
  for (std::int32_t i = tensor.layer_begin + threadIdx.x; i < tensor.layer_end; i += kThreads)
    add_moments(total, scratch.chunks[i]);
  total = reduce_block<kThreads>(total, AddMoments{});
  if (threadIdx.x == 0) add_moments(layers[tensor.layer], total);
}

__global__ void __launch_bounds__(kThreads)
    clear_kernel(MomentsScales scales, LayerMoments* layers, std::int64_t layer_count) {
  const std::int64_t layer = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  wait_for_previous_kernel();
  let_next_kernel_begin();
  if (layer < layer_count) layers[layer] = no_moments(scales, layer);
}

}  // namespace

void clear_moments(MomentsScales scales, LayerMoments* layers, std::int64_t layer_count,
                   cudaStream_t stream) {
  if (layer_count == 0) return;
  launch_overlapped("clear_moments", clear_kernel,
                    {.grid = blocks_for(layer_count, kThreads), .threads = kThreads}, stream,
                    scales, layers, layer_count);
}

void add_gradient_moments(std::span<const TensorEntry> tensors, MomentsScales scales,
                          MomentsScratch scratch, LayerMoments* layers, cudaStream_t stream) {
  for_each_moments_list(tensors, [&](const MomentsList& list, std::int32_t segments) {
    launch_overlapped("add_gradient_moments", moments_kernel,
                      {.grid = unsigned(segments), .threads = kThreads}, stream, list, scales,
                      scratch, layers);
  });
}

}  // namespace triaccel::kernels::cuda
