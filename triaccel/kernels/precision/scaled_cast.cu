#include "triaccel/kernels/common/block_reduce.cuh"
#include "triaccel/kernels/common/chunk_loop.cuh"
#include "triaccel/kernels/precision/scaled_cast.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kPack = 8;                   // elements a thread takes at once: 16 bytes of FP16
constexpr std::int64_t kMaxBlocks = 2048;  // fills any chip; each adds one atomic at most

/// Magnitudes order as the integers that hold them. Reading first spares nearly every atomic once
/// the maximum is near its end.
__device__ void raise_maximum(float* maximum, float candidate) {
  if (candidate > *static_cast<volatile float*>(maximum))
    atomicMax(reinterpret_cast<int*>(maximum), __float_as_int(candidate));
}

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    cast_kernel(const typename From::Word* from, typename To::Word* to, std::int64_t count,
                CastScale scale) {
  wait_for_previous_kernel();
  const float factor = cast_factor(scale);
  const bool divide = scale.divide;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t packs = aligned_for_vectors(from, to) ? count / kPack : 0;
  float maximum = 0;
  for (std::int64_t i = first; i < packs; i += step) {
    const auto in = reinterpret_cast<const WordPack<typename From::Word, kPack>*>(from)[i];
    WordPack<typename To::Word, kPack> out;
#pragma unroll
    for (int k = 0; k < kPack; ++k)
      out.words[k] = cast_element<From, To>(in.words[k], factor, divide, maximum);
    reinterpret_cast<WordPack<typename To::Word, kPack>*>(to)[i] = out;
  }
  for (std::int64_t i = packs * kPack + first; i < count; i += step)
    to[i] = cast_element<From, To>(from[i], factor, divide, maximum);
  if (scale.absolute_maximum == nullptr) return;
  maximum = reduce_block<kThreads>(
      maximum, [](float& largest, float other) { largest = fmaxf(largest, other); });
  if (threadIdx.x == 0) raise_maximum(scale.absolute_maximum, maximum);
}

}  // namespace

void scaled_cast(const CastArrays& arrays, CastScale scale, cudaStream_t stream) {
  if (arrays.count == 0) return;
  const unsigned blocks =
      blocks_for(std::min(arrays.count, kMaxBlocks * kThreads * kPack), kThreads * kPack);
  with_stored_type(arrays.from_type, [&]<typename From>(From) {
    with_stored_type(arrays.to_type, [&]<typename To>(To) {
      launch_overlapped("scaled_cast", cast_kernel<From, To>, {.grid = blocks, .threads = kThreads},
                        stream, static_cast<const typename From::Word*>(arrays.from),
                        static_cast<typename To::Word*>(arrays.to), arrays.count, scale);
    });
  });
}

}  // namespace triaccel::kernels::cuda
