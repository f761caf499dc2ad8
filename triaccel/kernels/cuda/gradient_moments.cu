#include "triaccel/kernels/gradient_moments.h"

#include "triaccel/kernels/cuda/block_reduce.cuh"
#include "triaccel/kernels/cuda/chunk_loop.cuh"
#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/gradient_moments_math.h"

namespace triaccel::kernels::cuda {
namespace {

static_assert(kThreads * kElementsPerLane == kChunk, "one thread is one lane of a chunk");
static_assert(kThreads >= TensorList::kCapacity, "one thread looks at one tensor of the list");

struct AddMoments {
  template <typename Moments>
  __device__ void operator()(Moments& all, const Moments& part) const {
    add_moments(all, part);
  }
};

/// How many chunks of the list are of `layer`: this thread's share, for a sum over the block.
__device__ std::int32_t my_chunks_of_layer(const TensorList& list, std::int32_t layer) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= list.size || list.layer[i] != layer) return 0;
  return list.first_chunk[i + 1] - list.first_chunk[i];
}

/// All chunks of `layer`, in thread 0.
__device__ LayerMoments sum_of_layer(const TensorList& list, std::int32_t layer,
                                     const ChunkMoments* chunks) {
  LayerMoments mine;
  for (int i = 0; i < list.size; ++i) {
    if (list.layer[i] != layer) continue;
    const std::int32_t end = list.first_chunk[i + 1];
    for (std::int32_t c = list.first_chunk[i] + threadIdx.x; c < end; c += kThreads)
      add_moments(mine, chunks[c]);
  }
  return reduce_block<kThreads>(mine, AddMoments{});
}

/// One block a chunk; the last block of a layer adds its chunks up.
__global__ void __launch_bounds__(kThreads)
    moments_kernel(const __grid_constant__ TensorList list, MomentsScales scales,
                   MomentsScratch scratch, LayerMoments* layers) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  const FloatType type = list.gradient_type[range.index];
  const std::int32_t layer = list.layer[range.index];
  const GradientScales factors = gradient_scales(scales, layer, type);
  float sum = 0;
  float sum_of_squares = 0;
  ChunkMoments mine;
  const auto add = [&](float stored) {
    add_element(stored, factors, sum, sum_of_squares, mine.absolute_maximum, mine.nonfinite,
                mine.fp16_zeros, mine.fp16_subnormals);
  };
  with_stored_type(type, [&]<typename Stored>(Stored) {
    const auto* g = static_cast<const typename Stored::Word*>(list.gradient[range.index]);
    for_each_element(
        range, aligned_for_vectors(g),
        [&](std::int64_t i) {
          const float4 four = load4<Stored>(g + i);
          add(four.x);
          add(four.y);
          add(four.z);
          add(four.w);
        },
        [&](std::int64_t i) { add(Stored::value(g[i])); });
  });
  mine.sum = sum;
  mine.sum_of_squares = sum_of_squares;
  mine.count = my_chunks_of_layer(list, layer);  // rides along in the sum over the block
  ChunkMoments all = reduce_block<kThreads>(mine, AddMoments{});
  const auto layer_chunks = static_cast<std::uint32_t>(all.count);
  if (threadIdx.x == 0) {
    all.count = static_cast<std::int32_t>(range.end - range.begin);
    scratch.chunks[blockIdx.x] = all;
  }
  if (!is_last_block(scratch.tickets + layer, layer_chunks)) return;
  const LayerMoments total = sum_of_layer(list, layer, scratch.chunks);
  if (threadIdx.x == 0) add_moments(layers[layer], total);
}

__global__ void __launch_bounds__(kThreads)
    clear_kernel(MomentsScales scales, LayerMoments* layers, std::int64_t layer_count) {
  const std::int64_t layer = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (layer < layer_count) layers[layer] = no_moments(scales, layer);
}

}  // namespace

void clear_moments(MomentsScales scales, LayerMoments* layers, std::int64_t layer_count,
                   cudaStream_t stream) {
  if (layer_count == 0) return;
  clear_kernel<<<blocks_for(layer_count, kThreads), kThreads, 0, stream>>>(scales, layers,
                                                                           layer_count);
  check_launch("clear_moments");
}

void add_gradient_moments(std::span<const TensorEntry> tensors, MomentsScales scales,
                          MomentsScratch scratch, LayerMoments* layers, cudaStream_t stream) {
  launch_lists("add_gradient_moments", tensors,
               [&](const TensorList& list, unsigned blocks, std::int64_t) {
                 moments_kernel<<<blocks, kThreads, 0, stream>>>(list, scales, scratch, layers);
               });
}

}  // namespace triaccel::kernels::cuda
