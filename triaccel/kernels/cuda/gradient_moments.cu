#include "triaccel/kernels/gradient_moments.h"

#include "triaccel/kernels/cuda/chunk_loop.cuh"
#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/gradient_moments_math.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kWarps = kThreads / 32;
static_assert(kThreads * kElementsPerLane == kChunk, "one thread is one lane of a chunk");

template <typename Moments>
__device__ Moments shuffle_down(const Moments& mine, int distance) {
  constexpr int words = sizeof(Moments) / sizeof(std::uint32_t);
  std::uint32_t word[words];
  memcpy(word, &mine, sizeof mine);
#pragma unroll
  for (int i = 0; i < words; ++i) word[i] = __shfl_down_sync(~0u, word[i], distance);
  Moments other;
  memcpy(&other, word, sizeof other);
  return other;
}

/// The moments of all threads, in thread 0, added in the same order every time.
template <typename Moments>
__device__ Moments reduce_block(Moments mine) {
  __shared__ Moments warps[kWarps];
  for (int distance = 16; distance > 0; distance /= 2)
    add_moments(mine, shuffle_down(mine, distance));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int warp = 1; warp < kWarps; ++warp) add_moments(mine, warps[warp]);
  return mine;
}

__global__ void __launch_bounds__(kThreads)
    chunk_kernel(const __grid_constant__ TensorList list, const float* loss_scale,
                 const LayerScale* scales, ChunkMoments* chunks) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  const FloatType type = list.gradient_type[range.index];
  const std::int32_t layer = list.layer[range.index];
  const GradientScales factors = gradient_scales(*loss_scale, scales, layer, type);
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
  ChunkMoments all = reduce_block(mine);
  if (threadIdx.x != 0) return;
  all.count = static_cast<std::int32_t>(range.end - range.begin);
  all.layer = layer;
  chunks[blockIdx.x] = all;
}

/// One block a layer picks the layer's chunks out of all: at 40 bytes for 4096 elements the search
/// is small against the first pass, and no table of chunks has to be kept on the device.
__global__ void __launch_bounds__(kThreads)
    layer_kernel(const ChunkMoments* chunks, std::int64_t chunk_total, const float* loss_scale,
                 const LayerScale* scales, LayerMoments* layers) {
  LayerMoments mine;
  for (std::int64_t i = threadIdx.x; i < chunk_total; i += kThreads)
    if (chunks[i].layer == static_cast<std::int32_t>(blockIdx.x)) add_moments(mine, chunks[i]);
  LayerMoments all = reduce_block(mine);
  if (threadIdx.x != 0) return;
  all.fp16_scale = fp16_scale_of(*loss_scale, scales, blockIdx.x);
  layers[blockIdx.x] = all;
}

}  // namespace

void gradient_moments(std::span<const TensorEntry> tensors, const float* loss_scale,
                      const LayerScale* scales, ChunkMoments* chunks, LayerMoments* layers,
                      std::int64_t layer_count, cudaStream_t stream) {
  launch_lists("gradient_moments", tensors,
               [&](const TensorList& list, unsigned blocks, std::int64_t chunks_before) {
                 chunk_kernel<<<blocks, kThreads, 0, stream>>>(list, loss_scale, scales,
                                                               chunks + chunks_before);
               });
  if (layer_count == 0) return;
  layer_kernel<<<static_cast<unsigned>(layer_count), kThreads, 0, stream>>>(
      chunks, chunk_count(tensors), loss_scale, scales, layers);
  check_launch("gradient_moments");
}

}  // namespace triaccel::kernels::cuda
