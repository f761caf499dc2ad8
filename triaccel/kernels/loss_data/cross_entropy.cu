#include "triaccel/kernels/loss_data/cross_entropy.h"

#include "triaccel/kernels/common/block_reduce.cuh"
#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/loss_data/cross_entropy_math.h"

namespace triaccel::kernels::cuda {
namespace {

/// Beyond this many classes rows are so long that few of them at a time should be under way: what
/// the gradient reads again is then still in the cache.
constexpr std::int64_t kClassesOfASmallBlock = 8192;
constexpr int kLargeBlock = 1024;
static_assert(kThreads / 32 == kRowsOfABlock);

__device__ RowSums from_lane_0(const RowSums& sums) {
  RowSums first = sums;
  first.best.value = __shfl_sync(~0u, sums.best.value, 0);
  first.best.index = __shfl_sync(~0u, sums.best.index, 0);
  first.shift = __shfl_sync(~0u, sums.shift, 0);
  first.exponentials = __shfl_sync(~0u, sums.exponentials, 0);
  first.logits = __shfl_sync(~0u, sums.logits, 0);
  return first;
}

/// The sums of a team of threads, a warp or the block, in each of them.
template <int kTeam>
__device__ RowSums team_sums(RowSums mine) {
  const auto join = [](RowSums& all, const RowSums& part) { all = joined(all, part); };
  mine = reduce_warp(mine, join);
  if constexpr (kTeam > 32) {
    __shared__ RowSums warps[kTeam / 32];
    const int lane = threadIdx.x % 32;
    __syncthreads();  // of the row before
    if (lane == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = reduce_warp(lane < kTeam / 32 ? warps[lane] : no_sums(), join);
  }
  return from_lane_0(mine);
}

/// This thread's share of a row: pack_body(k) for the classes that fill 16 aligned bytes,
/// element_body(k) for the others.
template <typename Word, int kTeam, typename PackBody, typename ElementBody>
__device__ void for_each_class(const Word* row, std::int64_t classes, int rank, bool packed,
                               PackBody pack_body, ElementBody element_body) {
  constexpr int kPack = WordPack<Word>::kWords;
  std::int64_t head = classes;
  if (packed) {
    const auto past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(Word));
    head = (kPack - past) % kPack;
    if (head > classes) head = classes;
  }
  const std::int64_t tail = head + (classes - head) / kPack * kPack;
  for (std::int64_t k = rank; k < head; k += kTeam) element_body(k);
  for (std::int64_t k = head + rank * kPack; k < tail; k += kTeam * kPack) pack_body(k);
  for (std::int64_t k = tail + rank; k < classes; k += kTeam) element_body(k);
}

/// One row by a team of kTeam threads; what it adds to the score, in the team's first thread.
template <typename Stored, int kTeam>
__device__ PartialScore score_row(const ClassifiedBatch& batch, const BatchGradient& all,
                                  std::int64_t r, int rank) {
  using Word = typename Stored::Word;
  using Words = WordPack<Word>;
  const Word* row = static_cast<const Word*>(batch.logits) + r * batch.classes;
  Word* gradient = static_cast<Word*>(batch.gradient) + r * batch.classes;
  const bool packed = kTeam > 32 && (batch.gradient == nullptr ||
                                     reinterpret_cast<std::uintptr_t>(row) % 16 ==
                                         reinterpret_cast<std::uintptr_t>(gradient) % 16);
  const std::int64_t label = batch.labels[r];
  const bool valid = label >= 0 && label < batch.classes;
  const float label_logit = valid ? Stored::value(row[label]) : 0.0f;
  RowSums sums = no_sums();
  for_each_class<Word, kTeam>(
      row, batch.classes, rank, packed,
      [&](std::int64_t k) {
        const Words words = *reinterpret_cast<const Words*>(row + k);
#pragma unroll
        for (int i = 0; i < Words::kWords; ++i)
          add_logit(sums, Stored::value(words.words[i]), k + i);
      },
      [&](std::int64_t k) { add_logit(sums, Stored::value(row[k]), k); });
  sums = team_sums<kTeam>(sums);
  if (batch.gradient != nullptr) {
    const RowGradient params = row_gradient(all, loss_scale_of(batch), sums, valid);
    for_each_class<Word, kTeam>(
        row, batch.classes, rank, packed,
        [&](std::int64_t k) {
          const Words words = *reinterpret_cast<const Words*>(row + k);
          Words out;
#pragma unroll
          for (int i = 0; i < Words::kWords; ++i)
            out.words[i] =
                Stored::word(gradient_of(Stored::value(words.words[i]), k + i == label, params));
          *reinterpret_cast<Words*>(gradient + k) = out;
        },
        [&](std::int64_t k) {
          gradient[k] = Stored::word(gradient_of(Stored::value(row[k]), k == label, params));
        });
  }
  return rank == 0 ? row_score(batch, sums, label, label_logit) : PartialScore{};
}

/// A row of at most kMost classes by one thread. All is loaded before any of it is needed; beyond
/// the last class that one again, since a load under a condition would wait for its turn.
template <typename Stored, int kMost>
__device__ PartialScore score_short_row(const ClassifiedBatch& batch, const BatchGradient& all,
                                        std::int64_t r) {
  using Word = typename Stored::Word;
  const int classes = static_cast<int>(batch.classes);
  const Word* row = static_cast<const Word*>(batch.logits) + r * classes;
  Word words[kMost];
#pragma unroll
  for (int k = 0; k < kMost; ++k) words[k] = row[min(k, classes - 1)];
  const std::int64_t label = batch.labels[r];
  const float scale = loss_scale_of(batch);
  const bool valid = label >= 0 && label < classes;
  const int target = valid ? static_cast<int>(label) : -1;

  float x[kMost], label_logit = 0;
  RowSums sums = no_sums();
#pragma unroll
  for (int k = 0; k < kMost; ++k) {
    x[k] = k < classes ? Stored::value(words[k]) : -INFINITY;
    sums.best.value = fmaxf(sums.best.value, x[k]);  // NaN never wins
    sums.logits += k < classes ? x[k] : 0.0f;
    label_logit = k == target ? x[k] : label_logit;
  }
#pragma unroll
  for (int k = kMost - 1; k >= 0; --k)
    if (x[k] == sums.best.value && k < classes) sums.best.index = k;
  sums.shift = fmaxf(sums.shift, sums.best.value);
#pragma unroll
  for (int k = 0; k < kMost; ++k) sums.exponentials += exp_of_negative(x[k] - sums.shift);

  if (batch.gradient != nullptr) {
    const RowGradient params = row_gradient(all, scale, sums, valid);
    Word* gradient = static_cast<Word*>(batch.gradient) + r * classes;
#pragma unroll
    for (int k = 0; k < kMost; ++k)
      if (k < classes) gradient[k] = Stored::word(gradient_of(x[k], k == target, params));
  }
  return row_score(batch, sums, label, label_logit);
}

/// Adds what the kTeams teams of each block have found, `mine` in their first threads. `before` is
/// the score, in thread 0 of each block: asked for together with the logits, it is here by now.
template <int kBlock, int kTeams>
__device__ void add_teams(RunningScore* score, const RunningScore& before,
                          const ClassifiedBatch& batch, PartialScore* parts, PartialScore mine) {
  constexpr int kTeam = kBlock / kTeams;
  const auto add_to_score = [&](const PartialScore& all) {
    RunningScore after = before;
    add_batch(after, all, batch);
    after.finished_blocks = 0;
    *score = after;
  };
  __shared__ PartialScore teams[kTeams];
  if (threadIdx.x % kTeam == 0) teams[threadIdx.x / kTeam] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int team = 1; team < kTeams; ++team) add_part(mine, teams[team]);
    parts[blockIdx.x] = mine;
    if (gridDim.x == 1) add_to_score(mine);
  }
  if (gridDim.x == 1 || !is_last_block(&score->finished_blocks, gridDim.x)) return;
  PartialScore all;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kBlock) add_part(all, parts[i]);
  all = reduce_block<kBlock>(all, add_part);
  if (threadIdx.x == 0) add_to_score(all);
}

template <int kTeam, int kBlock>
__global__ void __launch_bounds__(kBlock)
    cross_entropy_kernel(RunningScore* score, const __grid_constant__ ClassifiedBatch batch,
                         PartialScore* parts) {
  constexpr int kRows = kBlock / kTeam;  // at a time
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kTeam;
  const BatchGradient all = batch_gradient(batch);
  PartialScore mine;
  RunningScore before;
  wait_for_previous_kernel();
  if (threadIdx.x == 0) before = *score;
  with_stored_type(batch.type, [&]<typename Stored>(Stored) {
    for (std::int64_t row = first_row; row < batch.rows; row += std::int64_t{gridDim.x} * kRows)
      add_part(mine, score_row<Stored, kTeam>(batch, all, row, threadIdx.x % kTeam));
  });
  add_teams<kBlock, kRows>(score, before, batch, parts, mine);
}

template <int kMost>
__global__ void __launch_bounds__(kShortRowsOfABlock, 1)
    short_rows_kernel(RunningScore* score, const __grid_constant__ ClassifiedBatch batch,
                      PartialScore* parts) {
  constexpr int kBlock = static_cast<int>(kShortRowsOfABlock);
  const BatchGradient all = batch_gradient(batch);
  PartialScore mine;
  RunningScore before;
  wait_for_previous_kernel();
  if (threadIdx.x == 0) before = *score;
  with_stored_type(batch.type, [&]<typename Stored>(Stored) {
    for (std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; row < batch.rows;
         row += std::int64_t{gridDim.x} * kBlock)
      add_part(mine, score_short_row<Stored, kMost>(batch, all, row));
  });
  mine = reduce_warp(mine, add_part);
  add_teams<kBlock, kBlock / 32>(score, before, batch, parts, mine);
}

__global__ void measured_loss_kernel(RunningScore* score, const MeasuredLoss loss,
                                     PartialScore* parts) {
  wait_for_previous_kernel();
  add_measured(*score, loss, parts);
}

}  // namespace

void cross_entropy(RunningScore* score, const ClassifiedBatch& batch, PartialScore* parts,
                   cudaStream_t stream) {
  const auto launch = [&](const auto kernel, int threads) {
    launch_overlapped("cross_entropy", kernel,
                      {.grid = unsigned(cross_entropy_parts(batch.rows, batch.classes)),
                       .threads = unsigned(threads)},
                      stream, score, batch, parts);
  };
  constexpr int short_rows = static_cast<int>(kShortRowsOfABlock);
  constexpr int few = 12;  // the ten classes of most small data sets, with little left over
  if (batch.classes <= few) return launch(short_rows_kernel<few>, short_rows);
  if (batch.classes <= kClassesOfAThread)
    return launch(short_rows_kernel<kClassesOfAThread>, short_rows);
  if (batch.classes <= kClassesOfAWarp) return launch(cross_entropy_kernel<32, kThreads>, kThreads);
  if (batch.classes <= kClassesOfASmallBlock)
    return launch(cross_entropy_kernel<kThreads, kThreads>, kThreads);
  launch(cross_entropy_kernel<kLargeBlock, kLargeBlock>, kLargeBlock);
}

void measured_loss(RunningScore* score, const MeasuredLoss& loss, PartialScore* parts,
                   cudaStream_t stream) {
  launch_overlapped("measured_loss", measured_loss_kernel, {.grid = 1, .threads = 1}, stream, score,
                    loss, parts);
}

}  // namespace triaccel::kernels::cuda
