#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/loss_data/running_score.h"

namespace triaccel::kernels {

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

}  // namespace triaccel::kernels
