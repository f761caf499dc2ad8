#pragma once

#include <cstdint>

#include "triaccel/kernels/cuda_stream.h"
#include "triaccel/kernels/tensor_list.h"

namespace triaccel::kernels {

/// Loss and right predictions since the last reset, summed where the batches are computed so that
/// the host reads once an interval.
struct RunningScore {
  double loss_sum = 0;                // of loss * samples, over the finite losses
  std::int64_t samples = 0;           // behind loss_sum
  std::int64_t correct = 0;           // predictions that were right
  std::int64_t predictions = 0;       // rows with a label >= 0
  std::int64_t nonfinite_losses = 0;  // batches whose loss was infinite or not a number
  std::uint32_t finished_blocks = 0;  // of the kernel at work; between kernels 0
  std::uint32_t reserved = 0;         // makes 8 bytes
};
static_assert(sizeof(RunningScore) == 48);

/// One batch: the mean loss [1] of `samples` samples, and `rows` predictions. Row r is right when
/// the first maximum of logits[r, 0..classes) is labels[r]; negative labels are not counted.
struct ScoredBatch {
  const float* loss = nullptr;
  const void* logits = nullptr;  // [rows, classes], contiguous
  FloatType logits_type = FloatType::F32;
  const std::int64_t* labels = nullptr;  // [rows]
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  std::int64_t samples = 0;
};

namespace cpu {
void add_score(RunningScore* score, const ScoredBatch& batch);
}
namespace cuda {
void add_score(RunningScore* score, const ScoredBatch& batch, cudaStream_t stream);
}

}  // namespace triaccel::kernels
