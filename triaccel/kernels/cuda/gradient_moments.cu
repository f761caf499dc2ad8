#include "triaccel/kernels/gradient_moments.h"

#include "triaccel/kernels/cuda/chunk_loop.cuh"
#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/gradient_moments_math.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kWarps = kThreads / 32;
static_assert(kThreads * kElementsPerLane == kChunk, "one thread is one lane of a chunk");

__device__ LayerMoments combine(LayerMoments a, const LayerMoments& b) {
  a.count += b.count;
  a.sum += b.sum;
  a.sum_of_squares += b.sum_of_squares;
  a.nonfinite += b.nonfinite;
  a.absolute_maximum = fmaxf(a.absolute_maximum, b.absolute_maximum);
  return a;
}

/// The moments of all threads, in thread 0, added in the same order every time.
__device__ LayerMoments reduce_block(LayerMoments mine) {
  __shared__ LayerMoments warps[kWarps];
  for (int distance = 16; distance > 0; distance /= 2) {
    LayerMoments other;
    other.count = __shfl_down_sync(~0u, mine.count, distance);
    other.sum = __shfl_down_sync(~0u, mine.sum, distance);
    other.sum_of_squares = __shfl_down_sync(~0u, mine.sum_of_squares, distance);
    other.nonfinite = __shfl_down_sync(~0u, mine.nonfinite, distance);
    other.absolute_maximum = __shfl_down_sync(~0u, mine.absolute_maximum, distance);
    mine = combine(mine, other);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int warp = 1; warp < kWarps; ++warp) mine = combine(mine, warps[warp]);
  return mine;
}

template <typename Word>
struct alignas(4 * sizeof(Word)) Quad {
  Word words[4];
};

__global__ void __launch_bounds__(kThreads)
    chunk_kernel(const __grid_constant__ TensorList list, const float* loss_scale,
                 ChunkMoments* chunks) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  const float inverse_scale = 1.0f / *loss_scale;
  float sum = 0;
  float sum_of_squares = 0;
  float absolute_maximum = 0;
  std::int32_t nonfinite = 0;
  const auto add = [&](float stored) {
    add_element(stored, inverse_scale, sum, sum_of_squares, absolute_maximum, nonfinite);
  };
  with_stored_type(list.gradient_type[range.index], [&]<typename Stored>(Stored) {
    using Word = typename Stored::Word;
    const Word* g = static_cast<const Word*>(list.gradient[range.index]);
    for_each_element(
        range, aligned_for_vectors(g),
        [&](std::int64_t i) {
          const Quad<Word> quad = *reinterpret_cast<const Quad<Word>*>(g + i);
          for (int k = 0; k < 4; ++k) add(Stored::value(quad.words[k]));
        },
        [&](std::int64_t i) { add(Stored::value(g[i])); });
  });
  LayerMoments mine;
  mine.sum = sum;
  mine.sum_of_squares = sum_of_squares;
  mine.nonfinite = nonfinite;
  mine.absolute_maximum = absolute_maximum;
  const LayerMoments all = reduce_block(mine);
  if (threadIdx.x == 0)
    chunks[blockIdx.x] = {all.sum,
                          all.sum_of_squares,
                          all.absolute_maximum,
                          static_cast<std::int32_t>(all.nonfinite),
                          static_cast<std::int32_t>(range.end - range.begin),
                          list.layer[range.index]};
}

/// One block a layer picks the layer's chunks out of all: at 32 bytes for 4096 elements the search
/// is small against the first pass, and no table of chunks has to be kept on the device.
__global__ void __launch_bounds__(kThreads)
    layer_kernel(const ChunkMoments* chunks, std::int64_t chunk_total, LayerMoments* layers) {
  LayerMoments mine;
  for (std::int64_t i = threadIdx.x; i < chunk_total; i += kThreads)
    if (chunks[i].layer == static_cast<std::int32_t>(blockIdx.x)) add_chunk(mine, chunks[i]);
  const LayerMoments all = reduce_block(mine);
  if (threadIdx.x == 0) layers[blockIdx.x] = all;
}

}  // namespace

void gradient_moments(std::span<const TensorEntry> tensors, const float* loss_scale,
                      ChunkMoments* chunks, LayerMoments* layers, std::int64_t layer_count,
                      cudaStream_t stream) {
  launch_lists("gradient_moments", tensors,
               [&](const TensorList& list, unsigned blocks, std::int64_t chunks_before) {
                 chunk_kernel<<<blocks, kThreads, 0, stream>>>(list, loss_scale,
                                                               chunks + chunks_before);
               });
  if (layer_count == 0) return;
  layer_kernel<<<static_cast<unsigned>(layer_count), kThreads, 0, stream>>>(
      chunks, chunk_count(tensors), layers);
  check_launch("gradient_moments");
}

}  // namespace triaccel::kernels::cuda
