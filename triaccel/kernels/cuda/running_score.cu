#include "triaccel/kernels/running_score.h"

#include "triaccel/kernels/cuda/launch.cuh"
#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/running_score_math.h"

namespace triaccel::kernels::cuda {
namespace {

constexpr int kRowsPerBlock = kThreads / 32;  // one warp a row
constexpr std::int64_t kMostBlocks = 1024;

__device__ Candidate best_of_warp(Candidate mine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const Candidate other = {__shfl_xor_sync(~0u, mine.value, distance),
                             __shfl_xor_sync(~0u, mine.index, distance)};
    mine = better(mine, other);
  }
  return mine;
}

/// Integer atomics only: their sum does not depend on the order. Block 0 alone adds the loss.
__global__ void __launch_bounds__(kThreads) score_kernel(RunningScore* score, ScoredBatch batch) {
  __shared__ int correct;
  __shared__ int predictions;
  if (threadIdx.x == 0) correct = predictions = 0;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / 32;
  const std::int64_t row_step = std::int64_t{gridDim.x} * kRowsPerBlock;
  with_stored_type(batch.logits_type, [&]<typename Stored>(Stored) {
    const auto* logits = static_cast<const typename Stored::Word*>(batch.logits);
    for (std::int64_t row = first_row; row < batch.rows; row += row_step) {
      if (batch.labels[row] < 0) continue;
      Candidate best = no_candidate();
      for (std::int64_t k = lane; k < batch.classes; k += 32)
        best = better(best, {Stored::value(logits[row * batch.classes + k]), k});
      best = best_of_warp(best);
      if (lane == 0) {
        atomicAdd(&predictions, 1);
        if (best.index == batch.labels[row]) atomicAdd(&correct, 1);
      }
    }
  });
  __syncthreads();
  if (threadIdx.x != 0) return;
  using Counter = unsigned long long;
  if (correct > 0)
    atomicAdd(reinterpret_cast<Counter*>(&score->correct), static_cast<Counter>(correct));
  if (predictions > 0)
    atomicAdd(reinterpret_cast<Counter*>(&score->predictions), static_cast<Counter>(predictions));
  if (blockIdx.x == 0) add_loss(*score, *batch.loss, batch.samples);
}

}  // namespace

void add_score(RunningScore* score, const ScoredBatch& batch, cudaStream_t stream) {
  const unsigned blocks = blocks_for(
      std::clamp(batch.rows, std::int64_t{1}, kMostBlocks * kRowsPerBlock), kRowsPerBlock);
  score_kernel<<<blocks, kThreads, 0, stream>>>(score, batch);
  check_launch("add_score");
}

}  // namespace triaccel::kernels::cuda
