#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

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

/// The best class so far. NaN never wins; a row without a number is never right.
struct Candidate {
  float value;
  std::int64_t index;
};

TRIACCEL_HOST_DEVICE inline Candidate no_candidate() { return {-INFINITY, INT64_MAX}; }

/// Of equal values the first index wins, whatever the order of comparison.
TRIACCEL_HOST_DEVICE inline Candidate better(Candidate a, Candidate b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

TRIACCEL_HOST_DEVICE inline void add_loss(RunningScore& score, float loss, std::int64_t samples) {
  if (fabsf(loss) <= FLT_MAX) {
    score.loss_sum += static_cast<double>(loss) * static_cast<double>(samples);
    score.samples += samples;
  } else {
    ++score.nonfinite_losses;
  }
}

/// One batch of classifications. With x = logits[r, :], p = softmax(x), n = classes and e =
/// label_smoothing the loss of row r is
///   (1 - e) * -log p[label]  +  e / n * sum_k -log p[k]
/// and the mean over the rows that of the batch (Szegedy et al. 2016, as torch computes it).
struct ClassifiedBatch {
  const void* logits = nullptr;  // [rows, classes], contiguous
  void* gradient = nullptr;      // the same, in the same type; null: not wanted
  FloatType type = FloatType::F32;
  const std::int64_t* labels = nullptr;  // [rows]
  std::int64_t rows = 0;
  std::int64_t classes = 0;  // fewer than 2^31
  std::int64_t samples = 0;  // what `score` counts as samples
  float label_smoothing = 0;
  float weight = 1;                   // of the batch's mean loss in what is differentiated
  const float* loss_scale = nullptr;  // a further factor, in device memory; null: 1
};

/// What a part of the rows adds to the score.
struct PartialScore {
  double loss = 0;  // summed over rows
  std::int32_t correct = 0;
  std::int32_t predictions = 0;
};
static_assert(sizeof(PartialScore) == 16);

/// Into how many parts the rows are cut: the sums depend on the shape alone, never on the machine.
std::int64_t cross_entropy_parts(std::int64_t rows, std::int64_t classes);

/// Adds the batch to `score` and writes
///   gradient = weight * loss_scale / rows * (p - (1 - e) * [k == label] - e / n).
/// A label outside [0, classes) makes its row's loss and gradient NaN. `parts` is scratch for
/// cross_entropy_parts() entries. One kernel, computing in FP32: reads the logits from memory once
/// (and of many classes once from a cache, where a gradient is wanted) and writes the gradient
/// once.
namespace cpu {
void cross_entropy(RunningScore* score, const ClassifiedBatch& batch, PartialScore* parts);
}
namespace cuda {
void cross_entropy(RunningScore* score, const ClassifiedBatch& batch, PartialScore* parts,
                   cudaStream_t stream);
}

/// One batch whose mean loss was computed elsewhere.
struct MeasuredLoss {
  const float* mean = nullptr;  // in device memory
  std::int64_t samples = 0;     // what `score` counts as samples
  std::int64_t parts = 0;       // entries that keep the loss like those of cross_entropy()
};

/// Adds the batch to `score`. `parts`: the first one gets the sum over the samples, the others 0.
namespace cpu {
void measured_loss(RunningScore* score, const MeasuredLoss& loss, PartialScore* parts);
}
namespace cuda {
void measured_loss(RunningScore* score, const MeasuredLoss& loss, PartialScore* parts,
                   cudaStream_t stream);
}

}  // namespace triaccel::kernels
