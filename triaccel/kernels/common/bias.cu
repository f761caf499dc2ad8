#include "triaccel/kernels/common/bias.h"

#include "triaccel/kernels/common/channel_pack.cuh"
#include "triaccel/kernels/common/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kAddRows = 4;  // of a thread
constexpr int kSumThreads = 512;
constexpr std::int64_t kSumLanes = 32;    // at most, along a row
constexpr std::int64_t kSumBlocks = 264;  // two for each multiprocessor of a large chip

// Threads lie blockDim.x along the packs of a row times blockDim.y along the rows.

template <typename Stored, int kPack>
__global__ void __launch_bounds__(kThreads)
    add_kernel(BiasedMatrix shape, const float* bias, void* matrix) {
  const std::int64_t channel = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kPack;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.y * kAddRows + threadIdx.y;
  wait_for_previous_kernel();
  if (channel >= shape.channels) return;
  ChannelPack<Stored, kPack> in[kAddRows];
#pragma unroll
  for (int i = 0; i < kAddRows; ++i) {  // the last row again costs less than a branch
    const std::int64_t row = min(first + i * blockDim.y, shape.rows - 1);
    in[i] = load_channels<Stored, kPack>(matrix, row * shape.channels + channel);
  }
  float offsets[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) offsets[k] = bias[channel + k];
#pragma unroll
  for (int i = 0; i < kAddRows; ++i) {
    const std::int64_t row = first + i * blockDim.y;
    if (row >= shape.rows) return;
    float sums[kPack];
#pragma unroll
    for (int k = 0; k < kPack; ++k) sums[k] = in[i].value(k) + offsets[k];
    store_channels<Stored, kPack>(matrix, row * shape.channels + channel, sums);
  }
}

/// sums[blockIdx.y][channel] over one of gridDim.y runs of rows.
template <typename Stored, int kPack>
__global__ void __launch_bounds__(kSumThreads)
    sum_kernel(BiasedMatrix shape, std::int64_t run_rows, const void* matrix, float* sums) {
  const std::int64_t channel = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPack;
  const bool real = channel < shape.channels;
  const std::int64_t begin = blockIdx.y * run_rows, end = min(begin + run_rows, shape.rows);
  float mine[kPack] = {};
  wait_for_previous_kernel();
  if (real) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      const ChannelPack<Stored, kPack> pack =
          load_channels<Stored, kPack>(matrix, row * shape.channels + channel);
#pragma unroll
      for (int k = 0; k < kPack; ++k) mine[k] += pack.value(k);
    }
  }
  __shared__ float shared[kPack][kSumThreads];
  const int lanes = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.y) * lanes + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int k = 0; k < kPack; ++k) shared[k][thread] = mine[k];
  __syncthreads();
  for (int left = static_cast<int>(blockDim.y); left > 1;) {
    const int half = (left + 1) / 2;
    if (static_cast<int>(threadIdx.y) < left - half)
#pragma unroll
      for (int k = 0; k < kPack; ++k) shared[k][thread] += shared[k][thread + half * lanes];
    __syncthreads();
    left = half;
  }
  if (threadIdx.y != 0 || !real) return;
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    sums[blockIdx.y * shape.channels + channel + k] = shared[k][thread];
}

void sum_runs(const BiasedMatrix& shape, std::int64_t runs, const void* matrix, float* sums,
              cudaStream_t stream) {
  with_channel_pack(shape.type, shape.channels, aligned_for_vectors(matrix),
                    [&]<typename Stored, int kPack>(Stored, std::integral_constant<int, kPack>) {
                      const std::int64_t packs = shape.channels / kPack;
                      std::int64_t groups = blocks_for(packs, kSumLanes);
                      // Few blocks: less of a row for each, down to the 32 bytes that memory moves
                      // at once.
                      constexpr int few = 32 / (kPack * sizeof(typename Stored::Word));
                      while (groups * runs < kSumBlocks && 2 * few * groups <= packs) groups *= 2;
                      const std::int64_t lanes = blocks_for(packs, groups);
                      const std::int64_t run_rows = blocks_for(shape.rows, runs);
                      const std::int64_t slots =
                          std::clamp<std::int64_t>(run_rows, 1, kSumThreads / lanes);
                      launch_overlapped("bias_gradient", sum_kernel<Stored, kPack>,
                                        {.grid = {blocks_for(packs, lanes), unsigned(runs)},
                                         .threads = {unsigned(lanes), unsigned(slots)}},
                                        stream, shape, run_rows, matrix, sums);
                    });
}

}  // namespace

void add_bias(const BiasedMatrix& shape, const float* bias, void* matrix, cudaStream_t stream) {
  if (shape.rows * shape.channels == 0) return;
  with_channel_pack(shape.type, shape.channels, aligned_for_vectors(matrix),
                    [&]<typename Stored, int kPack>(Stored, std::integral_constant<int, kPack>) {
                      const std::int64_t packs = shape.channels / kPack;
                      const std::int64_t lanes = packs <= kThreads ? packs : kThreads / 2;
                      const std::int64_t slots = std::min(kThreads / lanes, shape.rows);
                      launch_overlapped("add_bias", add_kernel<Stored, kPack>,
                                        {.grid = {blocks_for(shape.rows, slots * kAddRows),
                                                  blocks_for(packs, lanes)},
                                         .threads = {unsigned(lanes), unsigned(slots)}},
                                        stream, shape, bias, matrix);
                    });
}

void bias_gradient(const BiasedMatrix& shape, const void* output_gradient, float* scratch,
                   float* sums, cudaStream_t stream) {
  if (shape.channels == 0) return;
  const std::int64_t chunks = bias_row_chunks(shape);
  if (chunks == 1) return sum_runs(shape, 1, output_gradient, sums, stream);
  sum_runs(shape, chunks, output_gradient, scratch, stream);
  sum_runs({.rows = chunks, .channels = shape.channels, .type = FloatType::F32}, 1, scratch, sums,
           stream);
}

}  // namespace triaccel::kernels::cuda
